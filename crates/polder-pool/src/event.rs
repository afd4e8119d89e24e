//! Telling what goes on in the background: events of `tracing`, with the feature of that name.

/// Tells of something that happened off the common way, to whoever subscribes to `tracing`: a
/// level, values by name (each is written as `Display` does), and a sentence. Without the feature
/// `tracing` nothing is evaluated and nothing compiled.
///
/// ```
/// let (device, ms) = ("log", 1200);
/// polder_pool::event!(warn, device = device, ms = ms, "the device was slow to sync");
/// ```
#[cfg(feature = "tracing")]
#[macro_export]
#[doc(hidden)]
macro_rules! event {
    ($level:ident, $($name:ident = $value:expr,)* $what:literal) => {
        $crate::tracing::$level!($($name = %$value,)* $what)
    };
}

/// The same without: the values count as used.
#[cfg(not(feature = "tracing"))]
#[macro_export]
#[doc(hidden)]
macro_rules! event {
    ($level:ident, $($name:ident = $value:expr,)* $what:literal) => {{
        let _ = || {
            $(let _ = &$value;)*
        };
    }};
}
