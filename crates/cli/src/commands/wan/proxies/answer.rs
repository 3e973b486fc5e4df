//! Requests of the API and their answers, reduced to method, path and status.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use softtimers::{Clock, Monotonic, Timestamp};

use super::fields::{ProxyFields, ToxicChange, ToxicFields};
use super::refusal::{Refusal, refuse};
use super::registry::{MOST_PROXIES, Registry};

/// An answer: a status, and JSON if there is a body.
pub(crate) type Answer = (u16, Option<Value>);

/// A request. Before it is answered, its names [are looked up](Self::look_up).
#[derive(Debug)]
pub(crate) struct Asked {
    method: String,
    /// The path's parts, if they are UTF-8.
    parts: Option<Vec<String>>,
    body: Vec<u8>,
    /// The proxies that it describes, if any.
    proxies: Result<Vec<ProxyFields>, Refusal>,
}

impl Asked {
    /// Parses a request.
    pub(crate) fn read(method: String, path: &str, body: Vec<u8>) -> Self {
        let parts = path.trim_matches('/').split('/').map(decoded).collect::<Option<Vec<String>>>();
        let names: Vec<&str> = parts.iter().flatten().map(String::as_str).collect();
        let proxies: Result<Vec<ProxyFields>, _> = match (method.as_str(), names.as_slice()) {
            ("POST", ["populate"]) => read(&body).and_then(few),
            ("POST", ["proxies"]) | ("POST" | "PATCH", ["proxies", _]) => read(&body).map(|one| vec![one]),
            _ => Ok(vec![]),
        };
        Asked { method, parts, body, proxies }
    }

    /// Says whether it has host names, whose lookup may take time.
    pub(crate) fn has_names(&self) -> bool {
        self.proxies.iter().flatten().any(ProxyFields::has_names)
    }

    /// Looks its addresses up; begins no lookup after this time.
    #[must_use]
    pub(crate) fn look_up(self, until: Timestamp) -> Self {
        let in_time = |one: ProxyFields| {
            if Monotonic.now() < until { Ok(one.look_up()) } else { Err(refuse(504, TOO_LONG)) }
        };
        let proxies = self.proxies.and_then(|all| all.into_iter().map(in_time).collect());
        Asked { proxies, ..self }
    }

    /// Returns the one proxy that it describes.
    fn proxy(self) -> Result<ProxyFields, Refusal> {
        Ok(self.proxies?.pop().unwrap_or_default())
    }
}

/// Answers a request.
pub(crate) fn answer(registry: &mut Registry, asked: Asked) -> Answer {
    match done(registry, asked) {
        Ok(answer) => answer,
        Err(Refusal { status, words }) => (status, Some(json!({ "error": words, "status": status }))),
    }
}

fn done(registry: &mut Registry, mut asked: Asked) -> Result<Answer, Refusal> {
    let parts = asked.parts.take().ok_or_else(|| refuse(400, "the path is not UTF-8"))?;
    let method = std::mem::take(&mut asked.method);
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let ok = |value| Ok((200, Some(value)));
    match (method.as_str(), parts.as_slice()) {
        ("GET", ["version"]) => ok(json!({ "version": VERSION })),
        ("POST", ["reset"]) => registry.reset().map(|()| (204, None)),
        ("POST", ["populate"]) => {
            let (proxies, outcome) = registry.populate(&asked.proxies?);
            Ok(match outcome {
                Ok(()) => (201, Some(json!({ "proxies": proxies }))),
                Err(Refusal { status, words }) => {
                    (status, Some(json!({ "error": words, "status": status, "proxies": proxies })))
                }
            })
        }
        ("GET", ["proxies"]) => ok(registry.show_all()),
        ("POST", ["proxies"]) => {
            let name = registry.create(&asked.proxy()?, None)?;
            Ok((201, Some(registry.show(&name)?)))
        }
        ("GET", ["proxies", name]) => ok(registry.show(name)?),
        ("POST" | "PATCH", ["proxies", name]) => {
            registry.show(name)?;
            registry.update(name, &asked.proxy()?)?;
            ok(registry.show(name)?)
        }
        ("DELETE", ["proxies", name]) => registry.remove(name).map(|()| (204, None)),
        ("GET", ["proxies", name, "toxics"]) => ok(registry.toxics(name)?),
        ("POST", ["proxies", name, "toxics"]) => {
            registry.show(name)?;
            ok(registry.add_toxic(name, read::<ToxicFields>(&asked.body)?)?)
        }
        ("GET", ["proxies", name, "toxics", toxic]) => ok(registry.toxic(name, toxic)?),
        ("POST" | "PATCH", ["proxies", name, "toxics", toxic]) => {
            registry.toxic(name, toxic)?;
            ok(registry.change_toxic(name, toxic, &read::<ToxicChange>(&asked.body)?)?)
        }
        ("DELETE", ["proxies", name, "toxics", toxic]) => {
            registry.remove_toxic(name, toxic).map(|()| (204, None))
        }
        (_, ["version" | "reset" | "populate" | "proxies"])
        | (_, ["proxies", _])
        | (_, ["proxies", _, "toxics"])
        | (_, ["proxies", _, "toxics", _]) => Err(refuse(405, "this method is not allowed here")),
        _ => Err(refuse(404, "not found")),
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    let bad = |error| refuse(400, format_args!("bad request body: {error}"));
    let given: Value = serde_json::from_slice(body).map_err(bad)?;
    serde_json::from_value(in_small_letters(given)).map_err(bad)
}

/// Writes all names in small letters: Toxiproxy does not tell them apart.
fn in_small_letters(value: Value) -> Value {
    match value {
        Value::Object(all) => all
            .into_iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), in_small_letters(value)))
            .collect(),
        Value::Array(all) => all.into_iter().map(in_small_letters).collect(),
        other => other,
    }
}

/// Refuses more proxies than allowed.
fn few(all: Vec<ProxyFields>) -> Result<Vec<ProxyFields>, Refusal> {
    if all.len() > MOST_PROXIES {
        return Err(refuse(400, format_args!("{} proxies; at most {MOST_PROXIES} are allowed", all.len())));
    }
    Ok(all)
}

/// Decodes the percent signs in a part of a path.
fn decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        bytes.push(match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                rest = after;
                let digits = [*high, *low];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            (&byte, _) => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// The message when lookups took too long.
pub(crate) const TOO_LONG: &str = "to look up a name took longer than 10 s";
/// The version of Toxiproxy whose API this is; clients check it.
const VERSION: &str = "2.12.0";

#[cfg(test)]
mod tests {
    use super::*;

    fn populate(proxies: usize, upstream: &str) -> Asked {
        let all = vec![json!({ "name": "a", "listen": "", "upstream": upstream }); proxies];
        Asked::read("POST".to_owned(), "/populate", json!(all).to_string().into_bytes())
    }

    #[test]
    fn only_names_take_their_time() {
        assert!(populate(2, "localhost:9").has_names());
        assert!(!populate(2, "127.0.0.1:9").has_names() && !populate(2, "[::1]:9").has_names());
        assert!(!Asked::read("GET".to_owned(), "/version", vec![]).has_names());
        assert!(populate(MOST_PROXIES, "localhost:9").has_names());
        let many = populate(MOST_PROXIES + 1, "localhost:9");
        assert!(!many.has_names() && many.proxies.unwrap_err().status == 400);
    }

    #[test]
    fn nothing_is_looked_up_after_its_time() {
        let late = populate(2, "127.0.0.1:9").look_up(Timestamp::ZERO);
        assert_eq!(late.proxies, Err(refuse(504, TOO_LONG)));
        let until = Monotonic.now() + std::time::Duration::from_secs(3_600);
        assert!(populate(2, "127.0.0.1:9").look_up(until).proxies.unwrap()[1].upstream_at.is_some());
    }
}
