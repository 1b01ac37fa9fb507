//! Parts of an operator's own state: which of its subtasks gets which, also at another parallelism.
//!
//! Invariants. **OP1** a split part goes to one subtask, whatever the parallelism. **OP2** any other part, a broadcast one, goes to
//! every subtask. **OP3** at the same parallelism each subtask gets back the split parts that it gave.

/// The parts that `subtask` of `parallelism` starts from. `given`: what each subtask gave, in their order. They stay in the order
/// in which they were given.
///
/// # Panics
/// If there is no such subtask.
pub fn parts_of<P>(given: &[Vec<P>], is_split: impl Fn(&P) -> bool, parallelism: u32, subtask: u32) -> Vec<&P> {
    assert!(subtask < parallelism, "subtask {subtask} of {parallelism}");
    let is_same = given.len() == parallelism as usize;
    // Counts split parts over all subtasks, to deal them out like cards.
    let mut dealt = 0;
    let mut parts = Vec::new();
    for (giver, own) in (0u32..).zip(given) {
        for part in own {
            if is_split(part) {
                let owner = if is_same { giver } else { dealt % parallelism };
                dealt += 1;
                if owner != subtask {
                    continue;
                }
            }
            parts.push(part);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Whether it is split, and a number.
    type Part = (bool, u32);

    fn parts(given: &[Vec<Part>], parallelism: u32) -> Vec<Vec<Part>> {
        (0..parallelism)
            .map(|subtask| parts_of(given, |part| part.0, parallelism, subtask).into_iter().copied().collect())
            .collect()
    }

    #[test]
    fn split_parts_go_to_one_and_broadcast_parts_to_all_at_every_parallelism() {
        for givers in 1..6u32 {
            let given: Vec<Vec<Part>> = (0..givers).map(|g| (0..g + 2).map(|i| (i % 3 != 2, g * 100 + i)).collect()).collect();
            for parallelism in 1..9 {
                let got = parts(&given, parallelism);
                let mut times: BTreeMap<Part, u32> = BTreeMap::new();
                got.iter().flatten().for_each(|part| *times.entry(*part).or_default() += 1);
                for part in given.iter().flatten() {
                    let wanted = if part.0 { 1 } else { parallelism };
                    assert_eq!(times[part], wanted, "OP1, OP2: {part:?} of {givers} for {parallelism}");
                }
                let split = |parts: &Vec<Part>| parts.iter().filter(|part| part.0).count();
                let (least, most) = (got.iter().map(split).min(), got.iter().map(split).max());
                let is_even = most.zip(least).is_some_and(|(most, least)| most - least <= 1);
                assert!(is_even || parallelism == givers, "they are dealt evenly: {got:?}");
            }
        }
    }

    #[test]
    fn at_the_same_parallelism_each_gets_its_own_back() {
        let given = vec![vec![(true, 1), (false, 2), (true, 3)], vec![], vec![(false, 4)]];
        let all = vec![(false, 2), (false, 4)];
        assert_eq!(parts(&given, 3), [vec![(true, 1), (false, 2), (true, 3), (false, 4)], all.clone(), all], "OP3");
        assert_eq!(parts(&given, 2), [vec![(true, 1), (false, 2), (false, 4)], vec![(false, 2), (true, 3), (false, 4)]]);
    }
}
