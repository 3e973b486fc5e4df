//! The fields of Toxiproxy's API, as read and written.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use softtimers_measure::failure::Failure;
use softtimers_wan::Way;
use softtimers_wan::toxic::Toxic;

use crate::address;

/// A requested proxy. Absent fields keep their value or take the default.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
pub(crate) struct ProxyFields {
    #[serde(default)]
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) listen: Option<String>,
    #[serde(default)]
    pub(crate) upstream: Option<String>,
    #[serde(default)]
    pub(crate) enabled: Option<bool>,
    /// Not Toxiproxy's: `tcp`, `udp`, or `interfaces`, whose names are in `listen` and `upstream`.
    #[serde(default)]
    pub(crate) protocol: Option<String>,
    /// Not Toxiproxy's: changes of the path.
    #[serde(default)]
    pub(crate) path: Option<Vec<String>>,
    /// The addresses, once they have been looked up.
    #[serde(skip)]
    pub(crate) listen_at: Option<Result<SocketAddr, String>>,
    #[serde(skip)]
    pub(crate) upstream_at: Option<Result<SocketAddr, String>>,
}

impl ProxyFields {
    /// Looks the addresses up, which may take time for names.
    #[must_use]
    pub(crate) fn look_up(self) -> Self {
        if self.protocol() == Ok(Some(Protocol::Interfaces)) {
            return self;
        }
        let at = |text: &Option<String>, find: fn(&str) -> Result<SocketAddr, Failure>| {
            let text = text.as_deref().filter(|text| !text.is_empty())?;
            Some(find(text).map_err(|refused| refused.to_string()))
        };
        let listen_at = at(&self.listen, address::resolve);
        let upstream_at = at(&self.upstream, address::destination);
        ProxyFields { listen_at, upstream_at, ..self }
    }

    /// Says whether an address has a host name.
    pub(crate) fn has_names(&self) -> bool {
        let is_name = |text: &&String| !text.is_empty() && address::numeric(text) == Ok(None);
        self.protocol() != Ok(Some(Protocol::Interfaces))
            && [&self.listen, &self.upstream].into_iter().flatten().any(|text| is_name(&text))
    }

    /// Returns the protocol, if it is given.
    ///
    /// # Errors
    /// The known protocols.
    pub(crate) fn protocol(&self) -> Result<Option<Protocol>, String> {
        let Some(name) = self.protocol.as_deref() else { return Ok(None) };
        let all = [Protocol::Tcp, Protocol::Udp, Protocol::Interfaces];
        let found = all.into_iter().find(|protocol| protocol.name() == name);
        found.map(Some).ok_or_else(|| format!("protocol {name:?}: tcp, udp and interfaces are allowed"))
    }

    /// Returns the interfaces of the path.
    ///
    /// # Errors
    /// If one is missing.
    pub(crate) fn interfaces(&self) -> Result<[String; 2], String> {
        let name = |text: &Option<String>| text.clone().filter(|name| !name.is_empty());
        match (name(&self.listen), name(&self.upstream)) {
            (Some(a), Some(b)) => Ok([a, b]),
            _ => Err("protocol \"interfaces\": two are needed, such as \"listen\": \"eth1\", \"upstream\": \"eth2\"".into()),
        }
    }
}

/// The traffic of a proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protocol {
    /// Streams.
    Tcp,
    /// Datagrams.
    Udp,
    /// Frames between two interfaces.
    Interfaces,
}

impl Protocol {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Interfaces => "interfaces",
        }
    }
}

/// A requested toxic.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(crate) struct ToxicFields {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default, rename = "type")]
    pub(crate) kind: String,
    #[serde(default = "downstream")]
    pub(crate) stream: String,
    #[serde(default)]
    pub(crate) toxicity: Option<f64>,
    #[serde(default)]
    pub(crate) attributes: Option<Map<String, Value>>,
}

/// A change of a toxic.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(crate) struct ToxicChange {
    #[serde(default)]
    pub(crate) toxicity: Option<f64>,
    #[serde(default)]
    pub(crate) attributes: Option<Map<String, Value>>,
}

fn downstream() -> String {
    "downstream".to_owned()
}

/// The attributes of a type of toxic, as given: numbers below zero count as zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", content = "attributes", rename_all = "snake_case")]
pub(crate) enum Attributes {
    Latency {
        #[serde(default)]
        latency: i64,
        #[serde(default)]
        jitter: i64,
    },
    Bandwidth {
        #[serde(default)]
        rate: i64,
    },
    SlowClose {
        #[serde(default)]
        delay: i64,
    },
    Timeout {
        #[serde(default)]
        timeout: i64,
    },
    ResetPeer {
        #[serde(default)]
        timeout: i64,
    },
    Slicer {
        #[serde(default)]
        average_size: i64,
        #[serde(default)]
        size_variation: i64,
        #[serde(default)]
        delay: i64,
    },
    LimitData {
        #[serde(default)]
        bytes: i64,
    },
    Noop {},
}

impl Attributes {
    /// Reads the attributes of a type; `None` if there is no such type.
    ///
    /// # Errors
    /// A message that names the fault of a value.
    pub(crate) fn read(kind: &str, given: &Map<String, Value>) -> Result<Option<Self>, String> {
        if !KINDS.contains(&kind) {
            return Ok(None);
        }
        let tagged = serde_json::json!({ "type": kind, "attributes": given });
        serde_json::from_value(tagged).map(Some).map_err(|error| error.to_string())
    }

    /// Returns the attributes after a change of some of them.
    ///
    /// # Errors
    /// A message that names the fault of a value.
    pub(crate) fn changed(self, change: &Map<String, Value>) -> Result<Self, String> {
        let (kind, mut all) = self.parts();
        all.extend(change.clone());
        Ok(Self::read(&kind, &all)?.unwrap_or(self))
    }

    /// Returns the name of the type, and the attributes.
    pub(crate) fn parts(self) -> (String, Map<String, Value>) {
        match serde_json::to_value(self) {
            Ok(Value::Object(mut object)) => {
                let kind = object.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
                let attributes = object.remove("attributes").and_then(|all| all.as_object().cloned());
                (kind, attributes.unwrap_or_default())
            }
            _ => Default::default(),
        }
    }

    /// Returns the fault, unless it is none. Toxiproxy's units are milliseconds, kilobytes, and microseconds between
    /// slices.
    pub(crate) fn toxic(self) -> Option<Toxic> {
        let positive = |number: i64| u64::try_from(number).unwrap_or(0);
        let size = |number: i64| u32::try_from(positive(number)).unwrap_or(u32::MAX);
        let ms = |number: i64| Duration::from_millis(positive(number).min(LONGEST_MS));
        Some(match self {
            Attributes::Latency { latency, jitter } => {
                Toxic::Latency { latency: ms(latency), jitter: ms(jitter) }
            }
            Attributes::Bandwidth { rate } => Toxic::Bandwidth { rate: positive(rate).saturating_mul(1_000) },
            Attributes::SlowClose { delay } => Toxic::SlowClose { delay: ms(delay) },
            Attributes::Timeout { timeout } => Toxic::Timeout { timeout: ms(timeout) },
            Attributes::ResetPeer { timeout } => Toxic::ResetPeer { timeout: ms(timeout) },
            Attributes::Slicer { average_size, size_variation, delay } => Toxic::Slicer {
                average_size: size(average_size),
                size_variation: size(size_variation),
                delay: Duration::from_micros(positive(delay).min(LONGEST_MS * 1_000)),
            },
            Attributes::LimitData { bytes } => Toxic::LimitData { bytes: positive(bytes) },
            Attributes::Noop {} => return None,
        })
    }
}

/// Returns the direction of a stream's name.
pub(crate) fn way(stream: &str) -> Option<Way> {
    match stream.to_ascii_lowercase().as_str() {
        "upstream" => Some(Way::Up),
        "downstream" => Some(Way::Down),
        _ => None,
    }
}

const KINDS: [&str; 8] =
    ["latency", "bandwidth", "slow_close", "timeout", "reset_peer", "slicer", "limit_data", "noop"];
/// A year: a longer time counts as this.
const LONGEST_MS: u64 = 31_536_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_those_of_the_type() {
        let given = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap();
        let latency =
            Attributes::read("latency", &given(r#"{"latency": 5, "unknown": 1}"#)).unwrap().unwrap();
        assert_eq!(latency, Attributes::Latency { latency: 5, jitter: 0 });
        assert_eq!(
            latency.changed(&given(r#"{"jitter": 2}"#)),
            Ok(Attributes::Latency { latency: 5, jitter: 2 })
        );
        assert_eq!(latency.parts(), ("latency".to_owned(), given(r#"{"latency": 5, "jitter": 0}"#)));
        for kind in KINDS {
            let all = Attributes::read(kind, &Map::new()).unwrap().unwrap();
            assert_eq!(all.parts().0, kind);
        }
        assert_eq!(Attributes::read("down", &Map::new()), Ok(None));
        let negative = Attributes::read("latency", &given(r#"{"latency": -1}"#)).unwrap().unwrap();
        let none = Toxic::Latency { latency: Duration::ZERO, jitter: Duration::ZERO };
        assert_eq!((negative.toxic(), &negative.parts().1["latency"]), (Some(none), &Value::from(-1)));
        assert!(Attributes::read("latency", &given(r#"{"latency": 18446744073709551615}"#)).is_err());
        assert!(Attributes::read("timeout", &given(r#"{"timeout": "soon"}"#)).is_err());
    }
}
