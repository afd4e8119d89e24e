//! Which transactions are done how often.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use strum::VariantArray;

use super::transactions::Transaction;
use crate::random::{Random, RngExt};

/// How transactions are mixed. As text: `standard`, or the percentages of new-order and
/// stock-level, as in `20:80`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Mix {
    /// All five; payment, order-status, delivery and stock-level as seldom as clause 5.2.3 permits.
    Standard,
    /// New-order and stock-level alone; so many in a hundred are new-order.
    NewOrders(u8),
}

impl Mix {
    /// In percent, in the order of [`Transaction`].
    fn shares(self) -> [u64; 5] {
        match self {
            Mix::Standard => [45, 43, 4, 4, 4],
            Mix::NewOrders(share) => [u64::from(share), 0, 0, 0, 100 - u64::from(share)],
        }
    }

    /// Draws the next transaction.
    pub(super) fn draw(self, random: &mut Random) -> Transaction {
        let mut left = random.random_range(..100u64);
        for (transaction, share) in Transaction::VARIANTS.iter().copied().zip(self.shares()) {
            if left < share {
                return transaction;
            }
            left -= share;
        }
        Transaction::StockLevel
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mix::Standard => f.write_str("standard"),
            Mix::NewOrders(share) => write!(f, "{share}:{}", 100 - share),
        }
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Mix, String> {
        if text == "standard" {
            return Ok(Mix::Standard);
        }
        let both = text.split_once(':').and_then(|(new_orders, stock_levels)| {
            Some((new_orders.parse::<u8>().ok()?, stock_levels.parse::<u8>().ok()?))
        });
        match both {
            Some((share, rest)) if u16::from(share) + u16::from(rest) == 100 => {
                Ok(Mix::NewOrders(share))
            }
            _ => Err(format!(
                "{text:?} is neither standard nor percentages of new-order and stock-level that \
                 make 100 (20:80)"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;

    #[test]
    fn mixes_are_read_and_written() {
        for (text, mix) in [
            ("standard", Mix::Standard),
            ("20:80", Mix::NewOrders(20)),
            ("0:100", Mix::NewOrders(0)),
            ("100:0", Mix::NewOrders(100)),
        ] {
            assert_eq!(text.parse(), Ok(mix));
            assert_eq!(mix.to_string(), text);
            assert_eq!(mix.shares().iter().sum::<u64>(), 100);
        }
        for text in ["", "20", "20:70", "120:-20", "200:56", "50:50:0", "Standard"] {
            assert!(text.parse::<Mix>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn transactions_come_as_often_as_the_mix_says() {
        let mut random = stream(1, 1);
        let mixes = [0, 20, 50, 100].map(Mix::NewOrders);
        for mix in mixes.into_iter().chain([Mix::Standard]) {
            let mut counts = [0u64; 5];
            for _ in 0..100_000 {
                counts[mix.draw(&mut random) as usize] += 1;
            }
            for (count, share) in counts.into_iter().zip(mix.shares()) {
                assert!(count.abs_diff(share * 1000) <= 800 * share.min(1), "{mix}: {counts:?}");
            }
        }
    }
}
