//! The program that sends, as it runs in the kernel.

use std::os::fd::RawFd;

use softtimers_linux::bpf::Instruction;
use softtimers_linux::bpf::code::{CALL, COPY, Code, EXIT, LOAD_WORD, MAP_VALUE, SET, XDP_DROP};

use super::config::{FRACTION, GeneratorConfig};

/// The words that it shares with the generator, by number. Times are in fractions, from the start on.
pub(super) struct Word;

impl Word {
    /// When the next burst is due.
    pub(super) const NEXT: usize = 0;
    /// From one burst to the next.
    pub(super) const GAP: usize = 1;
    /// Frames of this burst that were sent.
    pub(super) const IN_BURST: usize = 2;
    pub(super) const SENT: usize = 3;
    /// The maximum number of frames to send.
    pub(super) const MOST_FRAMES: usize = 4;
    /// On the kernel's clock, in nanoseconds.
    pub(super) const START: usize = 5;
    /// No burst is due from then on.
    pub(super) const END: usize = 6;
    pub(super) const CATCH_UP: usize = 7;
    /// Skipped bursts.
    pub(super) const FORFEITED: usize = 8;
    /// When this burst was due, as [`START`](Self::START).
    const DUE: usize = 9;
    /// When the first and the last burst left.
    pub(super) const FIRST: usize = 10;
    pub(super) const LAST: usize = 11;
    pub(super) const BURSTS: usize = 12;
    /// The sum of lateness, and the latest.
    pub(super) const LATE: usize = 13;
    pub(super) const LATEST: usize = 14;
    pub(super) const COUNT: usize = 15;
}

/// r7: the frame, r9: the words; r8: the next scheduled time, r6: clock checks left.
pub(super) fn program(config: &GeneratorConfig, interface: u32, words: RawFd) -> Vec<Instruction> {
    let mut code = Code::default();
    code.op(LOAD_WORD, 7, 1, DATA, 0)
        .op(LOAD_WORD, 8, 1, DATA_END, 0)
        .op(COPY, 2, 7, 0, 0)
        .op(ADD, 2, 0, 0, config.head as i32)
        .jump(SKIP_IF_GREATER_REGISTER, 2, 8, 0, "nothing") // the frame is shorter
        .load_map(9, MAP_VALUE, words);
    load(&mut code, 1, Word::SENT);
    load(&mut code, 2, Word::MOST_FRAMES);
    code.jump(SKIP_IF_AT_LEAST_REGISTER, 1, 2, 0, "nothing");
    load(&mut code, 1, Word::IN_BURST);
    code.jump(SKIP_IF_NOT_EQUAL, 1, 0, config.burst as i32, "send");
    wait(&mut code);
    give_up_places(&mut code);
    account(&mut code);
    code.label("send");
    write_head(&mut code, config);
    code.op(SET, 1, 0, 0, interface as i32)
        .op(SET, 2, 0, 0, 0)
        .op(CALL, 0, 0, 0, REDIRECT)
        .op(EXIT, 0, 0, 0, 0)
        .label("nothing")
        .op(SET, 0, 0, 0, XDP_DROP)
        .op(EXIT, 0, 0, 0, 0);
    code.finish()
}

/// Waits until the next scheduled time; r0 = now.
fn wait(code: &mut Code) {
    load(code, 8, Word::NEXT);
    load(code, 2, Word::END);
    code.jump(SKIP_IF_AT_LEAST_REGISTER, 8, 2, 0, "nothing");
    code.op(SET, 6, 0, 0, LOOKS).label("look").op(CALL, 0, 0, 0, KTIME_GET_NS);
    load(code, 1, Word::START);
    code.op(SUBTRACT_REGISTER, 0, 1, 0, 0)
        .op(SHIFT_LEFT, 0, 0, 0, FRACTION as i32)
        .jump(SKIP_IF_AT_LEAST_REGISTER, 0, 8, 0, "due")
        .op(ADD, 6, 0, 0, -1)
        .jump(SKIP_IF_NOT_EQUAL, 6, 0, 0, "look")
        .op(SET, 0, 0, 0, XDP_DROP)
        .op(EXIT, 0, 0, 0, 0)
        .label("due");
}

/// Skips whole intervals beyond the catch-up limit; r2 = the lateness afterwards.
fn give_up_places(code: &mut Code) {
    code.op(COPY, 2, 0, 0, 0).op(SUBTRACT_REGISTER, 2, 8, 0, 0);
    load(code, 1, Word::CATCH_UP);
    code.jump(SKIP_IF_AT_LEAST_REGISTER, 1, 2, 0, "kept").op(SUBTRACT_REGISTER, 2, 1, 0, 0);
    load(code, 3, Word::GAP);
    code.op(DIVIDE_REGISTER, 2, 3, 0, 0);
    add(code, Word::FORFEITED, 2);
    code.op(MULTIPLY_REGISTER, 2, 3, 0, 0)
        .op(ADD_REGISTER, 8, 2, 0, 0)
        .op(COPY, 2, 0, 0, 0)
        .op(SUBTRACT_REGISTER, 2, 8, 0, 0)
        .label("kept");
}

/// Counts a burst that leaves at r0, r2 after its scheduled time, whose successor comes next.
fn account(code: &mut Code) {
    add(code, Word::LATE, 2);
    load(code, 1, Word::LATEST);
    code.jump(SKIP_IF_AT_LEAST_REGISTER, 1, 2, 0, "not the latest");
    store(code, Word::LATEST, 2);
    code.label("not the latest");
    store(code, Word::LAST, 0);
    load(code, 1, Word::BURSTS);
    code.jump(SKIP_IF_NOT_EQUAL, 1, 0, 0, "not the first");
    store(code, Word::FIRST, 0);
    code.label("not the first").op(ADD, 1, 0, 0, 1);
    store(code, Word::BURSTS, 1);
    code.op(COPY, 1, 8, 0, 0).op(SHIFT_RIGHT, 1, 0, 0, FRACTION as i32);
    load(code, 2, Word::START);
    code.op(ADD_REGISTER, 1, 2, 0, 0);
    store(code, Word::DUE, 1);
    load(code, 1, Word::GAP);
    code.op(ADD_REGISTER, 8, 1, 0, 0);
    store(code, Word::NEXT, 8);
    code.op(STORE_CONSTANT_LONG, 9, 0, at(Word::IN_BURST), 0);
}

/// Rewrites the head: previous receivers of this frame may have changed it.
fn write_head(code: &mut Code, config: &GeneratorConfig) {
    let head = &config.frame[..config.head];
    let words = head.chunks_exact(4);
    let rest = words.remainder();
    for (index, word) in words.enumerate() {
        let word = i32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
        code.op(STORE_CONSTANT_WORD, 7, 0, index as i16 * 4, word);
    }
    for (index, &byte) in rest.iter().enumerate() {
        code.op(STORE_CONSTANT_BYTE, 7, 0, (head.len() - rest.len() + index) as i16, byte.into());
    }
    load(code, 1, Word::SENT);
    if let Some(place) = config.number_at {
        code.op(COPY, 2, 1, 0, 0).op(TO_BIG_ENDIAN, 2, 0, 0, 64).op(STORE_LONG, 7, 2, place as i16, 0);
    }
    code.op(ADD, 1, 0, 0, 1);
    store(code, Word::SENT, 1);
    if let Some(place) = config.due_at {
        load(code, 2, Word::DUE);
        code.op(TO_BIG_ENDIAN, 2, 0, 0, 64).op(STORE_LONG, 7, 2, place as i16, 0);
    }
    load(code, 1, Word::IN_BURST);
    code.op(ADD, 1, 0, 0, 1);
    store(code, Word::IN_BURST, 1);
}

fn load(code: &mut Code, to: u8, word: usize) {
    code.op(LOAD_LONG, to, 9, at(word), 0);
}

fn store(code: &mut Code, word: usize, from: u8) {
    code.op(STORE_LONG, 9, from, at(word), 0);
}

/// Adds a register to a word, by way of r4.
fn add(code: &mut Code, word: usize, from: u8) {
    load(code, 4, word);
    code.op(ADD_REGISTER, 4, from, 0, 0);
    store(code, word, 4);
}

fn at(word: usize) -> i16 {
    word as i16 * 8
}

/// The offset in `struct xdp_md` of the frame's beginning and end.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
/// The number of clock checks, some 50 µs: no other kernel work runs on this CPU meanwhile.
const LOOKS: i32 = 2_000;

/// `to = *(from + offset)`, eight bytes.
const LOAD_LONG: u8 = 0x79;
/// `*(to + offset) = from`, eight bytes.
const STORE_LONG: u8 = 0x7b;
/// `*(to + offset) = constant`, one byte.
const STORE_CONSTANT_BYTE: u8 = 0x72;
/// `*(to + offset) = constant`, four bytes.
const STORE_CONSTANT_WORD: u8 = 0x62;
/// `*(to + offset) = constant`, eight bytes.
const STORE_CONSTANT_LONG: u8 = 0x7a;
/// `to += constant`.
const ADD: u8 = 0x07;
/// `to += from`.
const ADD_REGISTER: u8 = 0x0f;
/// `to -= from`.
const SUBTRACT_REGISTER: u8 = 0x1f;
/// `to *= from`.
const MULTIPLY_REGISTER: u8 = 0x2f;
/// `to /= from`, unsigned; division by zero gives zero.
const DIVIDE_REGISTER: u8 = 0x3f;
/// `to <<= constant`.
const SHIFT_LEFT: u8 = 0x67;
/// `to >>= constant`, filled with zeros.
const SHIFT_RIGHT: u8 = 0x77;
/// The bytes of `to` in the network's order; the constant says how many bits.
const TO_BIG_ENDIAN: u8 = 0xdc;
/// `if to != constant goto`.
const SKIP_IF_NOT_EQUAL: u8 = 0x55;
/// `if to > from goto`.
const SKIP_IF_GREATER_REGISTER: u8 = 0x2d;
/// `if to >= from goto`.
const SKIP_IF_AT_LEAST_REGISTER: u8 = 0x3d;
/// `bpf_ktime_get_ns`: the monotonic clock.
const KTIME_GET_NS: i32 = 5;
/// `bpf_redirect`: the packet leaves by another interface.
const REDIRECT: i32 = 23;
