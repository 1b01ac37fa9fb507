//! Operators in an order in which each comes after what it reads, or a cycle.

use super::job_graph::{Endpoint, JobGraph};

/// Where a depth-first walk stands with an operator.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    Open,
    Done,
}

/// Indices of all operators, upstream first, otherwise in the order of the job file; or those of a cycle in the direction
/// of the records, the first one repeated at the end.
pub fn operators_in_order(graph: &JobGraph) -> Result<Vec<usize>, Vec<usize>> {
    let mut marks = vec![Mark::New; graph.operators.len()];
    let mut order = Vec::with_capacity(graph.operators.len());
    for root in 0..graph.operators.len() {
        // (operator, next of its inputs to look at): a stack of our own, as a long pipeline would overflow the thread's.
        let mut path: Vec<(usize, usize)> = Vec::new();
        if marks[root] == Mark::New {
            marks[root] = Mark::Open;
            path.push((root, 0));
        }
        while let Some((operator, input)) = path.last_mut() {
            let operator = *operator;
            let Some(upstream) = graph.operators[operator].inputs.get(*input) else {
                marks[operator] = Mark::Done;
                order.push(operator);
                path.pop();
                continue;
            };
            *input += 1;
            let upstream = match &upstream.from {
                Endpoint::Source(_) => continue,
                Endpoint::Operator(upstream) | Endpoint::Side { operator: upstream, .. } => *upstream,
            };
            match marks[upstream] {
                Mark::Done => {}
                Mark::New => {
                    marks[upstream] = Mark::Open;
                    path.push((upstream, 0));
                }
                Mark::Open => return Err(cycle(&path, upstream)),
            }
        }
    }
    Ok(order)
}

/// The walk went from reader to writer; the records go the other way.
fn cycle(path: &[(usize, usize)], closing: usize) -> Vec<usize> {
    let start = path.iter().position(|(operator, _)| *operator == closing).expect("an open operator is on the path");
    let mut cycle: Vec<usize> = path[start..].iter().map(|(operator, _)| *operator).collect();
    cycle.push(closing);
    cycle.reverse();
    cycle
}
