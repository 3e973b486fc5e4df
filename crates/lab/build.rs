//! A bench that simulates the clock must export it, or shared libraries would not find it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-benches=-rdynamic");
}
