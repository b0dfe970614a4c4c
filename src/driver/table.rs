//! What one declaration of a driver function becomes.

/// Makes, from `name(argument: type, ...);` lines:
///
/// - [`Function`](super::Function): the enum of all names, for the call log and for errors;
/// - [`Table`](super::Table): one pointer a function, filled late from a library or the host device;
/// - `api`: one unsafe Rust function each, which calls through the bound table and returns the
///   driver's own code;
/// - the symbols that cust links against, which hand cust only codes that its enum knows.
macro_rules! driver_functions {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        /// A driver function, by the name that cust_raw declares.
        #[allow(non_camel_case_types, missing_docs, reason = "the driver's own names")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Function { $($name),* }

        impl Function {
            /// Every function of the table, in the order of its declaration.
            pub const ALL: &'static [Function] = &[$(Function::$name),*];

            /// The name that libcuda exports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Function::$name => stringify!($name)),* }
            }
        }

        /// The driver's entry points: one pointer a function.
        #[allow(non_snake_case, missing_docs, reason = "the driver's own names")]
        #[derive(Clone, Copy)]
        pub struct Table { $(pub $name: unsafe extern "C" fn($($type),*) -> c_int),* }

        impl Table {
            /// A table in which every call returns `code` and does nothing else.
            pub(super) const fn answering<const CODE: c_int>() -> Table {
                $(#[allow(non_snake_case, reason = "the driver's own name")]
                unsafe extern "C" fn $name<const CODE: c_int>($(_: $type),*) -> c_int { CODE })*
                Table { $($name: $name::<CODE>),* }
            }

            /// Overwrites the pointer of every function that `library` exports and returns those
            /// that it does not.
            pub(super) fn load(&mut self, library: &libloading::Library) -> Vec<Function> {
                let mut missing = Vec::new();
                $(
                    // SAFETY: the declared signature is the one that the driver's header gives.
                    match unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) } {
                        Ok(symbol) => self.$name = *symbol,
                        Err(_) => missing.push(Function::$name),
                    }
                )*
                missing
            }
        }

        /// The driver's functions, called through the bound table, with the driver's own codes.
        #[allow(
            non_snake_case,
            clippy::missing_safety_doc,
            clippy::too_many_arguments,
            missing_docs,
            reason = "as the CUDA driver API documents each"
        )]
        pub mod api {
            use super::*;
            $(
                #[inline]
                pub unsafe fn $name($($argument: $type),*) -> c_int {
                    let table = $crate::driver::table();
                    if !$crate::driver::hooks::any() {
                        // SAFETY: the caller keeps the contract of the driver function.
                        return unsafe { (table.$name)($($argument),*) };
                    }
                    $crate::driver::hooks::around(Function::$name, || {
                        // SAFETY: the caller keeps the contract of the driver function.
                        unsafe { (table.$name)($($argument),*) }
                    })
                }
            )*
        }

        /// The symbols that cust links against. Hidden, so that a driver library loaded later never
        /// binds its own calls to them.
        mod symbols {
            use super::*;
            $(
                ::core::arch::global_asm!(concat!(".hidden ", stringify!($name)));

                #[unsafe(no_mangle)]
                #[allow(non_snake_case, reason = "the driver's own name")]
                unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                    // SAFETY: cust keeps the contract of the driver function.
                    let code = unsafe { api::$name($($argument),*) };
                    $crate::driver::code::for_cust(Function::$name, code)
                }
            )*
        }
    };
}

pub(super) use driver_functions;
