//! Element types: the three that a checkpoint may hold, and the names of the others for a clear refusal.

/// An element type that a checkpoint may hold.
///
/// The order is the one in which the safetensors writer lays tensors out, and so part of what H2 is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dtype {
    /// IEEE 754 binary32.
    F32,
    /// bfloat16.
    Bf16,
    /// IEEE 754 binary16.
    F16,
}

/// Other codes that safetensors 0.8 knows; legal in a container, not in a checkpoint.
const OTHERS: &[&str] = &[
    "BOOL",
    "U8",
    "I8",
    "U16",
    "I16",
    "U32",
    "I32",
    "U64",
    "I64",
    "F64",
    "C64",
    "F4",
    "F6_E2M3",
    "F6_E3M2",
    "F8_E5M2",
    "F8_E4M3",
    "F8_E8M0",
    "F8_E4M3FNUZ",
    "F8_E5M2FNUZ",
];

impl Dtype {
    /// The code in a safetensors header.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::Bf16 => "BF16",
            Self::F16 => "F16",
        }
    }

    /// The token in a checkpoint header and in the canonical hash.
    #[must_use]
    pub const fn token(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::Bf16 => "bfloat16",
            Self::F16 => "float16",
        }
    }

    /// Bytes of one element.
    #[must_use]
    pub const fn width(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }

    /// Finds a type by its safetensors code.
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        [Self::F32, Self::Bf16, Self::F16].into_iter().find(|dtype| dtype.code() == code)
    }

    /// Finds a type by its token.
    #[must_use]
    pub fn from_token(token: &str) -> Option<Self> {
        [Self::F32, Self::Bf16, Self::F16].into_iter().find(|dtype| dtype.token() == token)
    }

    /// The safetensors code, when `code` is one that the format knows but a checkpoint may not hold.
    #[must_use]
    pub fn known_elsewhere(code: &str) -> Option<&'static str> {
        OTHERS.iter().copied().find(|other| *other == code)
    }

    /// Bytes of a tensor of this type, or `None` when the product does not fit into 64 bits.
    ///
    /// Zero dimensions do not hide an overflow of the others, so the answer does not depend on their order.
    #[must_use]
    pub fn size_of(self, shape: &[u64]) -> Option<u64> {
        let product =
            shape.iter().filter(|dim| **dim != 0).try_fold(self.width(), |size, dim| size.checked_mul(*dim))?;
        Some(if shape.contains(&0) { 0 } else { product })
    }
}

#[cfg(test)]
mod tests {
    use super::Dtype;

    #[test]
    fn sizes_do_not_depend_on_the_order_of_dimensions() {
        assert_eq!(Dtype::F32.size_of(&[]), Some(4));
        assert_eq!(Dtype::F16.size_of(&[3, 0, 5]), Some(0));
        assert_eq!(Dtype::F32.size_of(&[0, 1 << 63, 4]), None);
        assert_eq!(Dtype::F32.size_of(&[1 << 63, 4, 0]), None);
        assert_eq!(Dtype::F32.size_of(&[(1 << 53) + 1]), Some(4 * ((1 << 53) + 1)));
    }
}
