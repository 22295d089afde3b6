//! Where randomness comes from: the system in production, a counter from one seed in the simulation.
//!
//! No other part of this crate may draw random numbers: decisions must replay from the seed.

use std::hash::{BuildHasher, RandomState};

/// A source of seeds, each unique.
#[derive(Debug)]
pub struct Seeds(SeedSource);

#[derive(Debug)]
enum SeedSource {
    /// A keyed hash of a counter: the key is the system's randomness, so seeds cannot be guessed.
    System { key: RandomState, drawn: u64 },
    /// Replays.
    Fixed(fastrand::Rng),
}

impl Seeds {
    /// Seeds that cannot be guessed.
    pub fn system() -> Self {
        Seeds(SeedSource::System { key: RandomState::new(), drawn: 0 })
    }

    /// Seeds that follow from `seed`.
    pub fn fixed(seed: u64) -> Self {
        Seeds(SeedSource::Fixed(fastrand::Rng::with_seed(seed)))
    }

    /// The next seed.
    pub fn draw(&mut self) -> u128 {
        match &mut self.0 {
            SeedSource::System { key, drawn } => {
                *drawn += 1;
                let half = |salt: u8| u128::from(key.hash_one((*drawn, salt)));
                half(0) << 64 | half(1)
            }
            SeedSource::Fixed(rng) => rng.u128(..),
        }
    }

    /// A generator of its own, for back-off.
    pub fn generator(&mut self) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.draw() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_seeds_replay_and_the_systems_do_not() {
        let draw = |mut seeds: Seeds| [seeds.draw(), seeds.draw(), seeds.draw()];
        assert_eq!(draw(Seeds::fixed(7)), draw(Seeds::fixed(7)));
        assert_ne!(draw(Seeds::fixed(7)), draw(Seeds::fixed(8)));
        let [a, b, c] = draw(Seeds::system());
        assert!(a != b && b != c);
        assert_ne!(draw(Seeds::system()), [a, b, c]);
    }
}
