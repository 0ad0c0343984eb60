//! Schemas of types that contracts take from elsewhere.
//!
//! A type is here if its `serde` form is the same in every codec and on every machine.

use super::{EnumType, Field, Fields, Schema, StructType, Type, Variant};
use bytes::Bytes;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::num::{
    NonZeroI8, NonZeroI16, NonZeroI32, NonZeroI64, NonZeroI128, NonZeroU8, NonZeroU16, NonZeroU32, NonZeroU64,
    NonZeroU128,
};
use std::time::{Duration, SystemTime};

macro_rules! plain {
    ($($ty:ty => $shape:ident),* $(,)?) => {
        $(impl Schema for $ty {
            const TYPE: &'static Type = &Type::$shape;
        })*
    };
}

plain! {
    bool => Bool, char => Char, () => Unit,
    u8 => U8, u16 => U16, u32 => U32, u64 => U64, u128 => U128,
    i8 => I8, i16 => I16, i32 => I32, i64 => I64, i128 => I128,
    f32 => F32, f64 => F64,
    NonZeroU8 => U8, NonZeroU16 => U16, NonZeroU32 => U32, NonZeroU64 => U64, NonZeroU128 => U128,
    NonZeroI8 => I8, NonZeroI16 => I16, NonZeroI32 => I32, NonZeroI64 => I64, NonZeroI128 => I128,
    str => Str, String => Str, Bytes => Bytes, serde_json::Value => Json,
}

impl<T: Schema + ?Sized> Schema for Box<T> {
    const TYPE: &'static Type = T::TYPE;
}

impl Schema for Cow<'static, str> {
    const TYPE: &'static Type = &Type::Str;
}

impl<T: Schema> Schema for Option<T> {
    const TYPE: &'static Type = &Type::Option(T::TYPE);
}

impl<T: Schema> Schema for [T] {
    const TYPE: &'static Type = &Type::seq_of(T::TYPE);
}

impl<T: Schema, const N: usize> Schema for [T; N] {
    const TYPE: &'static Type = &Type::Array(T::TYPE, N);
}

macro_rules! seq {
    ($($ty:ident $(<$state:ident>)?),* $(,)?) => {
        $(impl<T: Schema $(, $state)?> Schema for $ty<T $(, $state)?> {
            const TYPE: &'static Type = &Type::seq_of(T::TYPE);
        })*
    };
}

seq!(Vec, VecDeque, BTreeSet, HashSet<S>);

impl<K: Schema, V: Schema> Schema for BTreeMap<K, V> {
    const TYPE: &'static Type = &Type::map_of(K::TYPE, V::TYPE);
}

impl<K: Schema, V: Schema, S> Schema for HashMap<K, V, S> {
    const TYPE: &'static Type = &Type::map_of(K::TYPE, V::TYPE);
}

impl<T: Schema, E: Schema> Schema for Result<T, E> {
    const TYPE: &'static Type = &Type::Enum(&EnumType {
        name: "Result",
        docs: "",
        variants: &[
            Variant { name: "Ok", docs: "", fields: Fields::Newtype(T::TYPE) },
            Variant { name: "Err", docs: "", fields: Fields::Newtype(E::TYPE) },
        ],
    });
}

impl Schema for Duration {
    const TYPE: &'static Type = &Type::Struct(&StructType {
        name: "Duration",
        docs: "A span of time.",
        fields: Fields::Named(&[
            Field { name: "secs", docs: "Whole seconds.", ty: &Type::U64, optional: false },
            Field { name: "nanos", docs: "Nanoseconds below a second.", ty: &Type::U32, optional: false },
        ]),
    });
}

impl Schema for SystemTime {
    const TYPE: &'static Type = &Type::Struct(&StructType {
        name: "SystemTime",
        docs: "An instant, UTC.",
        fields: Fields::Named(&[
            Field { name: "secs_since_epoch", docs: "Seconds since 1970.", ty: &Type::U64, optional: false },
            Field { name: "nanos_since_epoch", docs: "Nanoseconds below a second.", ty: &Type::U32, optional: false },
        ]),
    });
}

macro_rules! tuples {
    ($(($($part:ident),+)),* $(,)?) => {
        $(impl<$($part: Schema),+> Schema for ($($part,)+) {
            const TYPE: &'static Type = &Type::Tuple(&[$($part::TYPE),+]);
        })*
    };
}

tuples! {
    (A), (A, B), (A, B, C), (A, B, C, D), (A, B, C, D, E), (A, B, C, D, E, F), (A, B, C, D, E, F, G),
    (A, B, C, D, E, F, G, H), (A, B, C, D, E, F, G, H, I), (A, B, C, D, E, F, G, H, I, J),
    (A, B, C, D, E, F, G, H, I, J, K), (A, B, C, D, E, F, G, H, I, J, K, L),
}
