//! The name by which programs find the shared library at run time: it changes when old programs would break.
//!
//! From 1.0 on it has the major version, before that also the minor one, as semantic versions promise no more.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        let number = |name: &str| std::env::var(name).unwrap_or_default();
        let (major, minor) = (number("CARGO_PKG_VERSION_MAJOR"), number("CARGO_PKG_VERSION_MINOR"));
        let promised = if major == "0" { format!("0.{minor}") } else { major };
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libsofttimers.so.{promised}");
    }
}
