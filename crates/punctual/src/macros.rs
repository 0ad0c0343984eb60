//! Macros that expansions of our attributes call. Whether the engine is there is known where this crate is compiled, not
//! where a contract is.

/// The items, where the `engine` feature is on.
#[cfg(feature = "engine")]
#[doc(hidden)]
#[macro_export]
macro_rules! __if_engine {
    ($($item:item)*) => { $($item)* };
}

/// Nothing, where the `engine` feature is off.
#[cfg(not(feature = "engine"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __if_engine {
    ($($item:item)*) => {};
}

/// How an error of this type becomes a failure: a `fn(&E) -> Failure`.
#[cfg(feature = "engine")]
#[doc(hidden)]
#[macro_export]
macro_rules! __explain {
    ($error:ty) => {{
        use $crate::__private::task::*;
        (&&&&Explain::<$error>::NEW).explain()
    }};
}
