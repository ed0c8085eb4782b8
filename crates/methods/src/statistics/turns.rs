//! Order of the runs of a comparison.

/// A comparison in rounds: each round runs every variant once, in the reverse order of the round before (ABBA), so that
/// a drift of the host affects all variants alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// Number of variants compared.
    pub variants: usize,
    /// Number of rounds: each runs every variant once.
    pub rounds: usize,
    /// Number of times that a run that is not valid is repeated.
    pub retries: usize,
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Number of the round, from 0.
    pub round: usize,
    /// Number of the variant, from 0.
    pub variant: usize,
    /// Number of the attempt: 0, and one more for each repetition.
    pub attempt: usize,
}

/// A run that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Turn of the run.
    pub turn: Turn,
    /// Whether the values of the run count.
    pub valid: bool,
}

/// Largest share of invalid runs of a variant that has a verdict, as a fraction.
const MOST_INVALID: (usize, usize) = (1, 5);

impl Turns {
    /// Returns the next run after those that have ended, in their order. `None` if all are done, or if no two variants
    /// are left that can still have a verdict. An outcome of another turn than the expected one ends the comparison,
    /// too. Outcomes of a comparison of fewer rounds can be continued.
    pub fn next(&self, done: &[Outcome]) -> Option<Turn> {
        let mut left = done.iter();
        let mut invalid = vec![0; self.variants];
        for round in 0..self.rounds {
            for place in 0..self.variants {
                let variant = if round % 2 == 0 {
                    place
                } else {
                    self.variants - 1 - place
                };
                let mut attempt = 0;
                loop {
                    let turn = Turn {
                        round,
                        variant,
                        attempt,
                    };
                    let lost = invalid.iter().filter(|invalid| self.is_lost(**invalid)).count();
                    if self.is_lost(invalid[0]) || self.variants - lost < 2 {
                        return None;
                    }
                    match left.next() {
                        None => return Some(turn),
                        Some(outcome) if outcome.turn != turn => return None,
                        Some(outcome) if outcome.valid => break,
                        Some(_) => invalid[variant] += 1,
                    }
                    attempt += 1;
                    if attempt > self.retries {
                        break;
                    }
                }
            }
        }
        None
    }

    /// Whether the rounds to come can't bring the share of valid runs up to what a verdict needs.
    fn is_lost(&self, invalid: usize) -> bool {
        too_many(invalid, self.rounds)
    }

    /// Whether so many of a variant's runs were not valid that it has no verdict.
    pub fn too_many_invalid(invalid: usize, valid: usize) -> bool {
        too_many(invalid, valid)
    }
}

fn too_many(invalid: usize, valid: usize) -> bool {
    invalid * MOST_INVALID.1 > (invalid + valid) * MOST_INVALID.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all turns if the runs at these places are not valid.
    fn play(turns: Turns, bad: &[usize]) -> Vec<Turn> {
        let mut done = Vec::new();
        while let Some(turn) = turns.next(&done) {
            let valid = !bad.contains(&done.len());
            done.push(Outcome { turn, valid });
        }
        done.into_iter().map(|outcome| outcome.turn).collect()
    }

    fn letters(turns: &[Turn]) -> String {
        turns.iter().map(|turn| char::from(b'A' + turn.variant as u8)).collect()
    }

    const TWO: Turns = Turns {
        variants: 2,
        rounds: 8,
        retries: 2,
    };

    #[test]
    fn the_order_is_turned_round_each_time() {
        assert_eq!(letters(&play(TWO, &[])), "ABBAABBAABBAABBA");
        let three = Turns {
            variants: 3,
            rounds: 2,
            retries: 0,
        };
        assert_eq!(letters(&play(three, &[])), "ABCCBA");
    }

    #[test]
    fn a_run_that_is_not_valid_is_repeated_at_once() {
        let turns = play(TWO, &[1]);
        assert_eq!(letters(&turns), "ABBBAABBAABBAABBA");
        assert_eq!((turns[2].round, turns[2].attempt), (0, 1));
        assert_eq!((turns[3].round, turns[3].attempt), (1, 0));
    }

    #[test]
    fn it_ends_when_no_verdict_can_come_of_it() {
        // Three of eleven runs not valid are more than one in five.
        assert_eq!(letters(&play(TWO, &[1, 2, 3])), "ABBB");
        let three = Turns { variants: 3, ..TWO };
        let turns = play(three, &[1, 2, 3]);
        assert!(turns.len() > 24, "the other two go on: {}", letters(&turns));
        let longer = Turns { rounds: 16, ..TWO };
        assert!(
            play(longer, &[1, 2, 3]).len() > 30,
            "of more rounds three are not too many"
        );
        assert!(Turns::too_many_invalid(3, 8) && !Turns::too_many_invalid(2, 8));
    }

    #[test]
    fn runs_that_are_not_of_their_turn_end_it() {
        let turn = Turn {
            round: 0,
            variant: 1,
            attempt: 0,
        };
        assert_eq!(TWO.next(&[Outcome { turn, valid: true }]), None);
    }
}
