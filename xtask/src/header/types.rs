//! Types and constants of Rust as C has them.

use anyhow::{Result, bail};

/// `name` declared as what is `kind` in Rust.
///
/// # Errors
/// For a type that has no meaning in C, or none that is known here.
pub(super) fn declared(kind: &str, name: &str, opaque: &[&str]) -> Result<String> {
    let c = c_type(kind, opaque)?;
    Ok(if c.ends_with('*') { format!("{c}{name}") } else { format!("{c} {name}") })
}

fn c_type(kind: &str, opaque: &[&str]) -> Result<String> {
    let inside = |before: &str| kind.strip_prefix(before)?.strip_suffix('>');
    // A pointer that may be NULL.
    if let Some(inner) = inside("Option<&mut MaybeUninit<").and_then(|inner| inner.strip_suffix('>')) {
        return Ok(pointer(&c_type(inner, opaque)?));
    }
    if let Some(inner) = inside("Option<&mut ").or_else(|| inside("Option<&'static ")) {
        return Ok(pointer(&c_type(inner, opaque)?));
    }
    if let Some(inner) = inside("Option<&InOut<").and_then(|inner| inner.strip_suffix('>')) {
        return Ok(pointer(&c_type(inner, opaque)?));
    }
    if let Some(inner) = inside("Option<&In<").and_then(|inner| inner.strip_suffix('>')) {
        return Ok(pointer(&format!("const {}", c_type(inner, opaque)?)));
    }
    // Of any object.
    if kind == "Option<&AnyObject>" {
        return Ok("void *".into());
    }
    if let Some(inner) = inside("Option<&") {
        // An object changes though Rust has it by shared reference.
        let constant = if opaque.contains(&inner) { "" } else { "const " };
        return Ok(pointer(&format!("{constant}{}", c_type(inner, opaque)?)));
    }
    if let Some(inner) = kind.strip_prefix("*mut ") {
        return Ok(pointer(&c_type(inner, opaque)?));
    }
    if let Some(inner) = kind.strip_prefix("*const ") {
        return Ok(pointer(&format!("const {}", c_type(inner, opaque)?)));
    }
    Ok(match kind {
        "()" | "c_void" => "void".into(),
        "c_int" => "int".into(),
        "c_char" => "char".into(),
        "u8" | "u16" | "u32" | "u64" => format!("uint{}_t", &kind[1..]),
        "usize" => "size_t".into(),
        "f64" => "double".into(),
        "libc::itimerval" => "struct itimerval".into(),
        name if name.starts_with("softtimers_") && name.chars().all(|c| c.is_alphanumeric() || c == '_') => {
            name.into()
        }
        _ => bail!("`{kind}` is no type of C"),
    })
}

fn pointer(to: &str) -> String {
    if to.ends_with('*') { format!("{to}*") } else { format!("{to} *") }
}

/// A constant's value.
///
/// # Errors
/// For an expression that is not known here.
pub(super) fn constant(value: &str) -> Result<String> {
    if let Some(minus) = value.strip_prefix("u64::MAX") {
        return match minus.strip_prefix(" - ") {
            None if minus.is_empty() => Ok("UINT64_MAX".into()),
            Some(number) if number.parse::<u64>().is_ok() => Ok(format!("(UINT64_MAX - {number})")),
            _ => bail!("`{value}` is no constant of the header"),
        };
    }
    if let Some(bits) = value.strip_prefix("1 << ").filter(|bits| bits.parse::<u32>().is_ok()) {
        return Ok(format!("(UINT64_C(1) << {bits})"));
    }
    let plain = value.replace('_', "");
    let number = plain.strip_prefix("0x").map_or_else(|| plain.parse(), |hex| u64::from_str_radix(hex, 16));
    if number.is_err() {
        bail!("`{value}` is no constant of the header");
    }
    Ok(plain)
}
