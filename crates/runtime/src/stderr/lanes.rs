//! Lines of the history that wait, in a lane for each Framework. The lanes are written in turn.
//!
//! Guarantees: the lines of one Framework stay in order. A Framework with much history delays its own lines,
//! and those of others by one portion only. The bytes that waiting lines render are bounded: see
//! [`Lanes::has_room`].

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use tokio::sync::oneshot;

use framework_engine::history::Line;
use framework_message::Key;

/// Bytes of the history that may wait, as they are rendered.
pub const MOST: usize = 64 << 20;
/// Bytes that one Framework may have waiting. A larger batch is taken whole, and counts as so much.
pub const SHARE: usize = MOST / 4;
/// Bytes beyond [`MOST`] for Frameworks that have nothing waiting.
const RESERVE: usize = MOST / 4;
/// Lines of up to so many bytes may use the reserve.
const SMALL: usize = 64 << 10;
/// Bytes that a lane writes before the next lane has its turn; at least one line.
const PORTION: usize = 64 << 10;

/// A line, or the confirmation that all lines before it are written.
#[derive(Debug)]
pub enum Item {
    Line(Box<Line>, Timestamp),
    Confirm(oneshot::Sender<()>),
}

/// The lanes of all Frameworks that have lines waiting.
#[derive(Debug, Default)]
pub struct Lanes {
    lanes: BTreeMap<Key, Lane>,
    /// The lanes in the order of their turns.
    turns: VecDeque<Key>,
    /// Bytes that wait, with at most a share for each lane.
    charged: usize,
    items: usize,
}

#[derive(Debug, Default)]
struct Lane {
    items: VecDeque<(Item, usize)>,
    waiting: usize,
    /// Bytes that it wrote in this turn.
    written: usize,
}

impl Lane {
    fn charge(&self) -> usize {
        self.waiting.min(SHARE)
    }
}

impl Lanes {
    /// Whether lines of so many bytes about a Framework are taken.
    ///
    /// A Framework that has nothing waiting may bring any number of bytes, so that no write waits for ever.
    /// Small lines of such a Framework are taken even if others have used up everything else.
    pub fn has_room(&self, key: &Key, weight: usize) -> bool {
        match self.lanes.get(key) {
            Some(lane) => lane.waiting + weight <= SHARE && self.charged + weight <= MOST,
            None => {
                let reserve = if weight <= SMALL { RESERVE } else { 0 };
                self.charged == 0 || self.charged + weight.min(SHARE) <= MOST + reserve
            }
        }
    }

    /// Adds lines with their weights, and a confirmation behind them.
    pub fn add(&mut self, key: &Key, lines: Vec<(Line, usize)>, at: Timestamp, written: oneshot::Sender<()>) {
        if !self.lanes.contains_key(key) {
            self.turns.push_back(key.clone());
        }
        let lane = self.lanes.entry(key.clone()).or_default();
        let before = lane.charge();
        self.items += lines.len() + 1;
        for (line, weight) in lines {
            lane.waiting += weight;
            lane.items.push_back((Item::Line(Box::new(line), at), weight));
        }
        lane.items.push_back((Item::Confirm(written), 0));
        self.charged += lane.charge() - before;
    }

    /// The next item. Its bytes no longer wait.
    pub fn next(&mut self) -> Option<Item> {
        let key = self.turns.front()?.clone();
        let lane = self.lanes.get_mut(&key)?;
        let before = lane.charge();
        let (item, weight) = lane.items.pop_front()?;
        lane.waiting -= weight;
        lane.written += weight;
        self.charged -= before - lane.charge();
        self.items -= 1;
        let (is_empty, is_over) = (lane.items.is_empty(), lane.written >= PORTION);
        if is_empty {
            self.lanes.remove(&key);
            self.turns.pop_front();
        } else if is_over {
            lane.written = 0;
            self.turns.rotate_left(1);
        }
        Some(item)
    }

    /// How many lines and confirmations wait.
    pub fn len(&self) -> usize {
        self.items
    }
}
