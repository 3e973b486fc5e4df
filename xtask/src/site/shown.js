// Checks each page of the site in a frame of each width, and each picture by itself, and writes what is wrong: parts cut off,
// text too pale on its background, pictures that do not load. PAGES, DARK and WIDTHS are defined before it.
"use strict";

const frame = document.querySelector("iframe");
const found = new Set();
// Text that is too pale, by its style: a link has the same one on every page.
const pale = new Set();
// Pictures by address, and the narrowest that a page shows them.
const pictures = new Map();
// A cell that is so narrow and so high has its words broken within.
const NARROW = 48, HIGH = 200;
// WCAG 2 AA: of words, of large ones, and of strokes that carry meaning. Grid lines are only to be seen.
const WORDS = 4.5, LARGE = 3, STROKES = 3, GRID = 1.15;
// Words of so many pixels are large.
const LARGE_FROM = 24;
// Words of pictures, in pixels at the narrowest width.
const SMALLEST = 9;

const pen = document.createElement("canvas").getContext("2d");

// A colour as red, green, blue and opacity.
function colour(css) {
  pen.fillStyle = "#010203";
  pen.fillStyle = css;
  const is = pen.fillStyle;
  if (is.startsWith("#")) return [1, 3, 5].map(at => parseInt(is.slice(at, at + 2), 16)).concat(1);
  return is.match(/[\d.]+/g).map(Number);
}

function over([r, g, b, a], below) {
  return [r, g, b].map((value, at) => a * value + (1 - a) * below[at]).concat(1);
}

function luminance(colour) {
  const [r, g, b] = colour.slice(0, 3).map(value => {
    value /= 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(front, back) {
  const [less, more] = [luminance(over(front, back)), luminance(back)].sort((one, other) => one - other);
  return (more + 0.05) / (less + 0.05);
}

// What an element stands on.
function ground(element, view) {
  const layers = [];
  for (let at = element; at; at = at.parentElement) {
    layers.push(colour(view.getComputedStyle(at).backgroundColor));
    if (layers.at(-1)[3] === 1) break;
  }
  return layers.reduceRight((below, layer) => over(layer, below), [255, 255, 255, 1]);
}

function name(element) {
  const words = element.textContent.trim().replace(/\s+/g, " ").slice(0, 40);
  const kind = element.className.baseVal ?? element.className;
  return `<${element.tagName.toLowerCase()}${kind ? ` class=${kind}` : ""}> '${words}'`;
}

function scrolls(style) {
  return style === "auto" || style === "scroll";
}

function cuts(style) {
  return style === "hidden" || style === "clip";
}

// Says what of a page is cut off: beside the window, or by a box that hides what is too much for it.
function lookForCuts(where, page, view) {
  const wide = page.documentElement.clientWidth;
  if (page.scrollingElement.scrollWidth > wide) found.add(`${where}: ${page.scrollingElement.scrollWidth} pixels wide`);
  for (const element of page.querySelectorAll(".page *, body.alone *")) {
    const style = view.getComputedStyle(element), box = element.getBoundingClientRect();
    // Hidden, or only there for screen readers.
    if (!element.getClientRects().length || style.visibility === "hidden" || box.width <= 1 || element.closest("svg *")) continue;
    const inner = element.clientWidth && element.scrollWidth > element.clientWidth + 1;
    if (element.tagName === "TD" && box.width < NARROW && box.height > HIGH && element.textContent.length > 20) {
      found.add(`${where}: squeezed to ${Math.round(box.width)} pixels: ${name(element)}`);
    }
    if (inner && cuts(style.overflowX)) found.add(`${where}: cuts its text: ${name(element)}`);
    if (box.right <= wide + 1 && box.left >= -1) continue;
    let parent = element.parentElement;
    while (parent && !scrolls(view.getComputedStyle(parent).overflowX)) parent = parent.parentElement;
    if (!parent || parent === page.body || parent === page.documentElement) found.add(`${where}: beside the window: ${name(element)}`);
  }
}

// Says which words are too pale.
function lookForWords(where, page, view) {
  const walk = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || seen.has(element) || element.closest("script, style, noscript")) continue;
    seen.add(element);
    if (!element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const style = view.getComputedStyle(element), least = parseFloat(style.fontSize) < LARGE_FROM ? WORDS : LARGE;
    const ratio = contrast(colour(style.color), ground(element, view));
    const look = `${element.tagName} ${element.className} ${ratio}`;
    if (ratio >= least || pale.has(look)) continue;
    pale.add(look);
    found.add(`${where}: a contrast of ${ratio.toFixed(1)}: ${name(element)}`);
  }
}

function lookForPictures(where, page) {
  for (const image of page.querySelectorAll("main img, body.alone img")) {
    // A picture that is enlarged at a touch stands there once more, hidden.
    if (!image.getClientRects().length || !image.checkVisibility({ visibilityProperty: true })) continue;
    const came = image.complete && image.naturalWidth;
    if (!came) found.add(`${where}: does not come: ${image.getAttribute("src")}`);
    if (!image.alt) found.add(`${where}: says nothing without pictures: ${image.getAttribute("src")}`);
    if (came && image.src.endsWith(".svg")) {
      pictures.set(image.src, Math.min(pictures.get(image.src) ?? Infinity, image.clientWidth));
    }
  }
}

// Says what of a picture is outside of it, over other words, too pale, or too small where it is shown narrowest.
function lookAtPicture(where, picture, view, shown) {
  const frame = picture.viewBox.baseVal, back = picture.querySelector(".ground");
  if (!back) found.add(`${where}: has no ground of its own`);
  const below = back ? colour(view.getComputedStyle(back).fill) : [255, 255, 255, 1];
  const all = [...picture.querySelectorAll("text")].map(text => [text, text.getBBox()]);
  for (const [text, box] of all) {
    const style = view.getComputedStyle(text), ratio = contrast(colour(style.fill), below);
    const inside = box.x >= frame.x && box.y >= frame.y && box.x + box.width <= frame.x + frame.width &&
      box.y + box.height <= frame.y + frame.height;
    if (!inside) found.add(`${where}: outside of the picture: ${name(text)}`);
    if (ratio < WORDS) found.add(`${where}: a contrast of ${ratio.toFixed(1)}: ${name(text)}`);
    const size = parseFloat(style.fontSize) * shown / frame.width;
    if (size < SMALLEST) found.add(`${where}: words of ${size.toFixed(1)} pixels where it is ${shown} wide: ${name(text)}`);
    for (const [other, its] of all) {
      if (text === other) break;
      const across = Math.min(box.x + box.width, its.x + its.width) - Math.max(box.x, its.x);
      const down = Math.min(box.y + box.height, its.y + its.height) - Math.max(box.y, its.y);
      // A line of text is higher than its letters.
      if (across > 0 && down > 4) found.add(`${where}: ${name(text)} is over ${name(other)}`);
    }
  }
  for (const stroke of picture.querySelectorAll("path, line, polyline, circle")) {
    const style = view.getComputedStyle(stroke);
    const ratio = Math.max(...[style.stroke, style.fill].filter(is => is !== "none").map(is => contrast(colour(is), below)));
    const least = stroke.classList.contains("grid") ? GRID : STROKES;
    if (!(ratio >= least)) found.add(`${where}: a contrast of ${ratio.toFixed(1)}: ${name(stroke)}`);
  }
}

// Loads an address into the frame, with its scripts run.
async function load(address, width) {
  frame.style.width = `${width}px`;
  await new Promise(done => {
    frame.onload = done;
    frame.src = address;
  });
  await new Promise(done => setTimeout(done, 400));
  return [frame.contentDocument, frame.contentWindow];
}

async function look() {
  const scheme = DARK ? "dark" : "light";
  if (matchMedia("(prefers-color-scheme: dark)").matches !== DARK) throw new Error(`it is not ${scheme}`);
  let looks = 0;
  for (const page of PAGES) {
    for (const width of WIDTHS) {
      const where = `${page.split("/").at(-1)}, ${width} pixels, ${scheme}`;
      const [shown, view] = await load(page, width);
      lookForCuts(where, shown, view);
      lookForWords(where, shown, view);
      lookForPictures(where, shown);
      looks += 1;
    }
  }
  for (const [address, width] of pictures) {
    const [shown, view] = await load(address, WIDTHS[0]);
    lookAtPicture(`${address.split("/").at(-1)}, ${scheme}`, shown.documentElement, view, width);
  }
  return `${looks} ${pictures.size}`;
}

const said = document.querySelector("pre");
said.textContent = "begun";
look().then(
  looks => { said.textContent = [...found, `looked ${looks}`].join("\n"); },
  error => { said.textContent = [...found, `error: ${error}`].join("\n"); });
