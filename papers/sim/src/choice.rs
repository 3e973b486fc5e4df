//! Choices among words: [`Choice`], a type each of whose values has a word on the command line.
//!
//! An experiment declares a parameter by the type, `Parameter::choice::<Kernel>(…)`, and reads the value:
//! `parameters.choice::<Kernel>("kernel")`. So a word that the code forgets does not compile, and none falls into
//! the branch of another.

/// A type that a parameter takes one value of.
///
/// ```
/// use softtimers_sim::{Choice, Parameter, Parameters, Setting};
///
/// #[derive(Clone, Copy, PartialEq, Debug)]
/// enum Coin {
///     Heads,
///     Tails,
/// }
///
/// impl Choice for Coin {
///     const WORDS: &'static [&'static str] = &["heads", "tails"];
///     const VALUES: &'static [Self] = &[Coin::Heads, Coin::Tails];
/// }
///
/// let declared = [Parameter::choice::<Coin>("side", "The side that wins")];
/// let parameters = Parameters::new(&declared);
/// assert_eq!(parameters.choice::<Coin>("side"), Coin::Heads);
/// assert_eq!(parameters.with("side", Setting::Choice("tails")).choice::<Coin>("side"), Coin::Tails);
/// ```
pub trait Choice: Copy + 'static {
    /// The words, in the order in which help lists them.
    const WORDS: &'static [&'static str];
    /// The value of each word, in the same order.
    const VALUES: &'static [Self];
}

/// `enum NAME { VARIANT = "word", … }` declares an enum that is a [`Choice`]; `TYPE: "word" => value, …` makes a type of
/// others one.
macro_rules! choices {
    ($(#[$meta:meta])* $vis:vis enum $Name:ident { $($(#[$about:meta])* $Variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        $vis enum $Name { $($(#[$about])* $Variant),+ }
        $crate::choice::choices! { $Name: $($word => $Name::$Variant),+ }
    };
    ($Type:ty: $($word:literal => $value:expr),+ $(,)?) => {
        impl $crate::Choice for $Type {
            const WORDS: &'static [&'static str] = &[$($word),+];
            const VALUES: &'static [Self] = &[$($value),+];
        }
    };
}
pub(crate) use choices;

choices! { bool: "no" => false, "yes" => true }
