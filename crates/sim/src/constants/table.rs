//! From the lines of the list to types: a structure for each section, [`Machine`](super::Machine) of all, and the lines
//! as data.

macro_rules! constants {
    ($(
        $(#[$about:meta])*
        $section:ident: $Section:ident {
            $(
                $name:ident: $type:ty = $value:expr, $unit:literal, $origin:expr, $(flag $of:literal $flag:literal,)*
                moves $moves:expr;
            )*
        }
    )*) => {
        $(
            $(#[$about])*
            #[derive(Clone, Copy, PartialEq, Debug)]
            #[expect(missing_docs, reason = "each field is a line of the list, which says what it is")]
            pub struct $Section {
                $(pub $name: $type,)*
            }
        )*

        /// All constants, with the values of one machine.
        #[derive(Clone, Copy, PartialEq, Debug)]
        #[expect(missing_docs, reason = "each field is a section of the list")]
        pub struct Machine {
            $(pub $section: $Section,)*
        }

        impl Machine {
            /// The values of the list.
            pub const PAPERS: Machine = Machine {
                $($section: $Section { $($name: $value,)* },)*
            };
        }

        /// All lines, in order.
        pub static LIST: &[Constant] = &[$($(
            Constant {
                section: stringify!($section),
                name: stringify!($name),
                unit: $unit,
                origin: $origin,
                flags: &[$(($of, $flag),)*],
                moves: $moves,
                value: |machine| machine.$section.$name.shown(),
                changed: |machine, percent| {
                    let mut changed = *machine;
                    changed.$section.$name = machine.$section.$name.changed(percent);
                    changed
                },
                setting: |machine| machine.$section.$name.setting(),
            },
        )*)*];
    };
}

pub(super) use constants;
