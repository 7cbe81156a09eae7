//! Numbers drawn from a seed (SplitMix64).

/// A source of numbers, the same for the same seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The source that this seed gives.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of 0 to `n` - 1.
    pub const fn below(&mut self, n: u64) -> u64 {
        self.bits() % n
    }

    /// True once in `n` times.
    pub const fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
