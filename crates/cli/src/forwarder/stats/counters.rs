//! [`counters!`]: a set of counters that is written down once.
//!
//! A counter's line says its name, its description and, where the name is not enough by itself, that of its metric. Its
//! sums, differences, JSON and metrics follow from that.

/// Defines a struct of counters.
macro_rules! counters {
    (
        $(#[$about:meta])*
        $vis:vis struct $name:ident {
            $($(#[doc = $doc:literal])+ $field:ident $(= $metric:literal)?),+ $(,)?
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
        $vis struct $name {
            $($(#[doc = $doc])+ pub(crate) $field: u64),+
        }

        impl $name {
            /// Returns the name of each counter's metric, its description, and its count.
            pub(crate) fn each(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((
                    $crate::forwarder::stats::counters::name_of(stringify!($field), &[$($metric)?]),
                    concat!($($doc),+).trim_ascii_start(),
                    self.$field,
                )),+]
                .into_iter()
            }

            /// Returns the counts since `earlier`.
            #[allow(dead_code, reason = "some sets are counted by their differences")]
            pub(crate) fn since(&self, earlier: &$name) -> $name {
                $name { $($field: self.$field - earlier.$field),+ }
            }
        }

        softtimers_measure::sums!($name: $($field),+);
    };
}

pub(crate) use counters;

/// Returns the metric's own name, if it has one.
pub(crate) const fn name_of(field: &'static str, metric: &[&'static str]) -> &'static str {
    match metric {
        [metric, ..] => metric,
        [] => field,
    }
}
