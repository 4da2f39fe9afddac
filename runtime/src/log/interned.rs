//! Strings that stay in the program's file: symbols of the section `.defmt`, named as the reader of
//! defmt's wire format 4 expects them. A string's number is its symbol's address, which the script
//! in `linker/` makes small.

/// A string that only its number tells.
#[derive(Clone, Copy)]
pub struct Interned(pub &'static u8);

impl Interned {
    /// The number. It means something in a board's program alone: elsewhere the section lies
    /// anywhere.
    pub fn number(self) -> u16 {
        core::ptr::from_ref(self.0).addr() as u16
    }
}

/// Interns a string of several literals for a use (`println`: a whole frame, `write`: a part of
/// one). defmt's own macros take a single literal, which no other macro can put together for them.
macro_rules! interned {
    (section = $section:expr, $use:literal, $($part:expr),+ $(,)?) => {{
        #[allow(unsafe_code)] // a byte of a name and in a section that nothing else has
        #[unsafe(export_name = concat!(
            r#"{"package":"rushlight","tag":"defmt_"#, $use, r#"","data":""#, $($part,)+
            r#"","disambiguator":""#, file!(), ":", line!(), ":", column!(),
            r#"","crate_name":"runtime"}"#,
        ))]
        #[unsafe(link_section = $section)]
        static BYTE: u8 = 0;
        $crate::log::Interned(&BYTE)
    }};
    ($use:literal, $($part:expr),+ $(,)?) => {
        $crate::log::interned!(section = concat!(".defmt.", $($part),+), $use, $($part),+)
    };
}

pub(crate) use interned;
