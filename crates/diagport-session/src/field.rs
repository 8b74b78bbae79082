//! Field types of events: how each is described to readers and how its value is encoded.

use diagport_buffer::{MAX_PAYLOAD_BYTES, PayloadOut, is_plain_ascii};
use diagport_nettrace::{Field, FieldType};

mod sealed {
    pub trait Sealed {}

    /// What an array may hold: everything but arrays.
    #[diagnostic::on_unimplemented(
        message = "an array of `{Self}` cannot be a field of an event",
        note = "elements are numbers, `bool`, `[u8; 16]` or `String`: readers know no arrays of arrays"
    )]
    pub trait Element: super::FieldValue {}
}

/// Memory of a thread's first payload.
const FIRST_PAYLOAD_BYTES: usize = 256;

/// A payload that is being encoded, in memory that the thread reuses.
#[derive(Debug, Default)]
pub struct PayloadBuffer {
    /// Never longer than the limit, so what fits it is allowed. Initialised once and not again for each payload.
    memory: Vec<u8>,
    used_bytes: usize,
    failed: bool,
}

impl PayloadBuffer {
    pub(crate) const fn new() -> Self {
        Self { memory: Vec::new(), used_bytes: 0, failed: false }
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.used_bytes = 0;
        self.failed = false;
    }

    /// None if the payload was too large or there was no memory for it.
    #[inline]
    pub(crate) fn payload(&self) -> Option<&[u8]> {
        if self.failed { None } else { self.memory.get(..self.used_bytes) }
    }

    /// The next so many bytes; None where that is not allowed or there is no memory, and then the payload has failed.
    #[inline(always)]
    fn room_for(&mut self, bytes: usize) -> Option<&mut [u8]> {
        if bytes > self.memory.len() - self.used_bytes && !self.grow(bytes) {
            return None;
        }
        let at = self.used_bytes;
        self.used_bytes += bytes;
        self.memory.get_mut(at..at + bytes)
    }

    #[cold]
    fn grow(&mut self, more: usize) -> bool {
        // A failed payload is not grown further, however long the value is.
        if self.failed || more > MAX_PAYLOAD_BYTES - self.used_bytes {
            self.failed = true;
            return false;
        }
        let doubled = (2 * self.memory.len()).clamp(FIRST_PAYLOAD_BYTES, MAX_PAYLOAD_BYTES);
        let length = doubled.max(self.used_bytes + more);
        self.failed = self.memory.try_reserve_exact(length - self.memory.len()).is_err();
        if !self.failed {
            self.memory.resize(length, 0);
        }
        !self.failed
    }
}

impl PayloadOut for PayloadBuffer {
    fn put(&mut self, bytes: &[u8]) {
        if let Some(room) = self.room_for(bytes.len()) {
            room.copy_from_slice(bytes);
        }
    }

    fn put_ascii(&mut self, text: &str) -> bool {
        if text.len() / 3 * 2 > MAX_PAYLOAD_BYTES {
            self.failed = true;
            return true;
        }
        let is_plain = is_plain_ascii(text);
        if is_plain && let Some(room) = self.room_for(2 * text.len() + 2) {
            let units = room.as_chunks_mut::<2>().0;
            if let Some((terminator, units)) = units.split_last_mut() {
                for (unit, byte) in units.iter_mut().zip(text.bytes()) {
                    *unit = [byte, 0];
                }
                *terminator = [0, 0];
            }
        }
        is_plain
    }

    fn fail(&mut self) {
        self.failed = true;
    }

    fn has_failed(&self) -> bool {
        self.failed
    }
}

/// A type that a field of an event can have: a number, `bool`, a GUID (`[u8; 16]`), `String`, or a `Vec` of one of these.
/// Sealed: readers know no others.
///
/// There are no arrays of arrays. The format has them, but the readers of Microsoft's tools give up the whole file at one:
///
/// ```
/// fn field<T: diagport_session::FieldValue>() {}
/// field::<Vec<u32>>();
/// field::<Vec<String>>();
/// field::<Vec<[u8; 16]>>();
/// ```
///
/// ```compile_fail,E0277
/// fn field<T: diagport_session::FieldValue>() {}
/// field::<Vec<Vec<u32>>>();
/// ```
pub trait FieldValue: sealed::Sealed + 'static {
    /// What [`Event::write`](crate::Event::write) takes for it: the value, or a borrow where the type owns memory.
    type Arg<'a>: Copy;
    /// How readers see it.
    #[doc(hidden)]
    fn field_type() -> FieldType;
    #[doc(hidden)]
    fn encode(arg: Self::Arg<'_>, out: &mut impl PayloadOut);
    #[doc(hidden)]
    fn as_arg(&self) -> Self::Arg<'_>;
}

macro_rules! number_fields {
    ($($type:ty => $field_type:ident),*) => {$(
        impl sealed::Sealed for $type {}
        impl sealed::Element for $type {}
        impl FieldValue for $type {
            type Arg<'a> = Self;
            fn field_type() -> FieldType {
                FieldType::$field_type
            }
            #[inline(always)]
            fn encode(arg: Self, out: &mut impl PayloadOut) {
                out.put(&arg.to_le_bytes());
            }
            fn as_arg(&self) -> Self {
                *self
            }
        }
    )*};
}

number_fields!(
    i8 => SByte, u8 => Byte, i16 => Int16, u16 => UInt16, i32 => Int32, u32 => UInt32, i64 => Int64, u64 => UInt64,
    f32 => Single, f64 => Double
);

impl sealed::Sealed for bool {}
impl sealed::Element for bool {}
/// Four bytes on the wire.
impl FieldValue for bool {
    type Arg<'a> = Self;
    fn field_type() -> FieldType {
        FieldType::Boolean
    }
    fn encode(arg: Self, out: &mut impl PayloadOut) {
        out.put(&u32::from(arg).to_le_bytes());
    }
    fn as_arg(&self) -> Self {
        *self
    }
}

impl sealed::Sealed for [u8; 16] {}
impl sealed::Element for [u8; 16] {}
/// A GUID in .NET's memory order.
impl FieldValue for [u8; 16] {
    type Arg<'a> = Self;
    fn field_type() -> FieldType {
        FieldType::Guid
    }
    fn encode(arg: Self, out: &mut impl PayloadOut) {
        out.put(&arg);
    }
    fn as_arg(&self) -> Self {
        *self
    }
}

impl sealed::Sealed for String {}
impl sealed::Element for String {}
/// UTF-16 with a terminator, so it ends at the first NUL.
impl FieldValue for String {
    type Arg<'a> = &'a str;
    fn field_type() -> FieldType {
        FieldType::String
    }
    #[inline]
    fn encode(arg: &str, out: &mut impl PayloadOut) {
        if out.put_ascii(arg) {
            return;
        }
        for unit in arg.encode_utf16().take_while(|unit| *unit != 0) {
            out.put(&unit.to_le_bytes());
            if out.has_failed() {
                return;
            }
        }
        out.put(&[0, 0]);
    }
    fn as_arg(&self) -> &str {
        self
    }
}

impl<T: sealed::Element> sealed::Sealed for Vec<T> {}
/// An array: a count of 16 bits and the elements, which are not arrays.
impl<T: sealed::Element> FieldValue for Vec<T> {
    type Arg<'a> = &'a [T];
    fn field_type() -> FieldType {
        FieldType::Array(Box::new(T::field_type()))
    }
    fn encode(arg: &[T], out: &mut impl PayloadOut) {
        let Ok(count) = u16::try_from(arg.len()) else {
            out.fail();
            return;
        };
        out.put(&count.to_le_bytes());
        for element in arg {
            T::encode(element.as_arg(), out);
            if out.has_failed() {
                return;
            }
        }
    }
    fn as_arg(&self) -> &[T] {
        self
    }
}

/// The fields of an event: a tuple of up to twelve [`FieldValue`]s.
pub trait EventFields: sealed::Sealed + 'static {
    /// One name per field.
    type Names<'a>;
    /// One argument per field.
    type Args<'a>;
    #[doc(hidden)]
    fn describe(names: Self::Names<'_>) -> Vec<Field>;
    #[doc(hidden)]
    fn encode(args: &Self::Args<'_>, out: &mut impl PayloadOut);
}

macro_rules! tuple_fields {
    ($count:literal: $($type:ident $name:ident),*) => {
        impl<$($type: FieldValue),*> sealed::Sealed for ($($type,)*) {}
        impl<$($type: FieldValue),*> EventFields for ($($type,)*) {
            type Names<'a> = [&'a str; $count];
            type Args<'a> = ($($type::Arg<'a>,)*);
            fn describe(names: [&str; $count]) -> Vec<Field> {
                let [$($name),*] = names;
                vec![$(Field { name: $name.to_owned(), field_type: $type::field_type() }),*]
            }
            #[inline(always)]
            fn encode(args: &Self::Args<'_>, out: &mut impl PayloadOut) {
                let ($($name,)*) = args;
                $($type::encode(*$name, out);)*
                let _ = out;
            }
        }
    };
}

tuple_fields!(0:);
tuple_fields!(1: A a);
tuple_fields!(2: A a, B b);
tuple_fields!(3: A a, B b, C c);
tuple_fields!(4: A a, B b, C c, D d);
tuple_fields!(5: A a, B b, C c, D d, E e);
tuple_fields!(6: A a, B b, C c, D d, E e, F f);
tuple_fields!(7: A a, B b, C c, D d, E e, F f, G g);
tuple_fields!(8: A a, B b, C c, D d, E e, F f, G g, H h);
tuple_fields!(9: A a, B b, C c, D d, E e, F f, G g, H h, I i);
tuple_fields!(10: A a, B b, C c, D d, E e, F f, G g, H h, I i, J j);
tuple_fields!(11: A a, B b, C c, D d, E e, F f, G g, H h, I i, J j, K k);
tuple_fields!(12: A a, B b, C c, D d, E e, F f, G g, H h, I i, J j, K k, L l);

#[cfg(test)]
mod tests {
    use super::*;

    fn check<F: EventFields>(args: F::Args<'_>, wanted: Option<&[u8]>) {
        let mut out = PayloadBuffer::new();
        F::encode(&args, &mut out);
        assert_eq!(out.payload(), wanted);
    }

    // spec-test: SES-FIELD-1, SES-FIELD-2
    #[test]
    fn values_are_encoded_as_readers_expect() {
        check::<()>((), Some(&[]));
        check::<(bool, u8, i16)>((true, 7, -2), Some(&[1, 0, 0, 0, 7, 0xFE, 0xFF]));
        check::<(f32,)>((1.0,), Some(&[0, 0, 0x80, 0x3F]));
        check::<(String, u8)>(("aé", 1), Some(&[0x61, 0, 0xE9, 0, 0, 0, 1]));
        check::<(String, u8)>(("a\0b", 1), Some(&[0x61, 0, 0, 0, 1]));
        check::<(String, u8)>(("é\0b", 1), Some(&[0xE9, 0, 0, 0, 1]));
        check::<(String, String)>(("", "xyz"), Some(&[0, 0, 0x78, 0, 0x79, 0, 0x7A, 0, 0, 0]));
        check::<(Vec<u16>, u8)>((&[1, 2], 9), Some(&[2, 0, 1, 0, 2, 0, 9]));
        check::<(Vec<String>,)>((&["x".to_owned(), String::new()],), Some(&[2, 0, 0x78, 0, 0, 0, 0, 0]));
        check::<([u8; 16],)>(([5; 16],), Some(&[5; 16]));
    }

    // spec-test: SES-LOSS-4
    #[test]
    fn a_payload_has_a_limit() {
        let fits = "x".repeat((MAX_PAYLOAD_BYTES - 3) / 2);
        let mut out = PayloadBuffer::new();
        <(String, u8)>::encode(&(&fits, 1), &mut out);
        assert_eq!(out.payload().map(<[u8]>::len), Some(MAX_PAYLOAD_BYTES));
        check::<(String, u16)>((&fits, 1), None);
        check::<(Vec<u8>,)>((&vec![0; 70_000],), None);
        check::<(String,)>((&"x".repeat(1 << 20),), None);
    }
}
