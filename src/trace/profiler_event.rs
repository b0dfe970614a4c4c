//! One event of a PyTorch profiler trace, as far as it matters for memory.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::lenient::{self, FromScalar, Number, Scalar, others};

/// Whether an event's name is the memory events'.
#[derive(Debug, Default)]
pub(super) struct IsMemory(pub bool);

impl FromScalar for IsMemory {
    fn from_scalar(scalar: Scalar<'_>) -> IsMemory {
        IsMemory(matches!(scalar, Scalar::Text("[memory]")))
    }
}

impl<'de> Deserialize<'de> for IsMemory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<IsMemory, D::Error> {
        lenient::scalar(deserializer)
    }
}

/// One element of `traceEvents`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, expecting = "an event: an object with name, ts and args")]
pub(super) struct RawEvent {
    pub name: IsMemory,
    #[serde(rename = "ts")]
    pub time: Number,
    #[serde(rename = "tid")]
    pub thread: Number,
    pub args: Args,
}

/// The `args` of a memory event; those of other events have other keys, and may be no map.
#[derive(Debug, Default)]
pub(super) struct Args(pub MemoryArgs);

#[derive(Debug, Default)]
pub(super) struct MemoryArgs {
    pub address: Number,
    pub bytes: Number,
    pub device_type: Number,
    pub device_id: Number,
}

impl<'de> Deserialize<'de> for Args {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Args, D::Error> {
        struct ArgsVisitor;

        impl<'de> Visitor<'de> for ArgsVisitor {
            type Value = Args;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event's args")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Args, A::Error> {
                let mut args = MemoryArgs::default();
                while let Some(key) = map.next_key::<Key>()? {
                    match key {
                        Key::Address => args.address = map.next_value()?,
                        Key::Bytes => args.bytes = map.next_value()?,
                        Key::DeviceType => args.device_type = map.next_value()?,
                        Key::DeviceId => args.device_id = map.next_value()?,
                        Key::Other => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(Args(args))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Args, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Args::default())
            }

            others!(Args::default());
        }

        deserializer.deserialize_any(ArgsVisitor)
    }
}

#[derive(Deserialize)]
#[serde(expecting = "a key of an event's args")]
enum Key {
    #[serde(rename = "Addr")]
    Address,
    Bytes,
    #[serde(rename = "Device Type")]
    DeviceType,
    #[serde(rename = "Device Id")]
    DeviceId,
    #[serde(other)]
    Other,
}
