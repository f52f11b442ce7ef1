//! The search: every state that can be reached, breadth first, and from which of them no end can be reached.
//!
//! States are told apart by a fingerprint of 128 bits. Were two different states to share one, the second would not be looked at:
//! among ten million states the odds of that are below one in 10²⁴. Everything is counted and walked in a fixed order, so the same
//! model gives the same numbers and the same traces wherever it is searched.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

/// What can be searched.
pub(crate) trait Model {
    /// A state. Two that are hashed alike are the same.
    type State: Clone + Hash;
    /// What can happen.
    type Action;

    /// Where it begins.
    fn init(&self) -> Self::State;
    /// What can happen in this state, always in the same order.
    fn actions(&self, state: &Self::State, into: &mut Vec<Self::Action>);
    /// The state after it, or the rule that was broken on the way.
    fn next(&self, state: &Self::State, action: &Self::Action) -> Result<Self::State, Breach>;
    /// Whether everything is over: from every state, one like this has to be reachable.
    fn is_end(&self, state: &Self::State) -> bool;
    /// Whether the way to an end may count on this: faults and favours may happen, but nothing may depend on them.
    fn helps(&self, state: &Self::State, action: &Self::Action) -> bool;
    /// The action in words.
    fn tell(&self, state: &Self::State, action: &Self::Action) -> String;
    /// The state in words, where it is one from which no end can be reached.
    fn tell_stuck(&self, state: &Self::State) -> String;
}

/// A rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    /// Which of the protocol's invariants it breaks.
    pub(crate) invariant: u8,
    /// What has happened.
    pub(crate) what: String,
}

/// When a search stops that is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) states: u64,
    pub(crate) time: Option<Duration>,
}

/// What a search has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Explored {
    pub(crate) states: u64,
    pub(crate) transitions: u64,
    pub(crate) depth: u32,
    /// Every state was looked at. If not, nothing is proved.
    pub(crate) complete: bool,
    /// The breach with the shortest way to it, and that way.
    pub(crate) wrong: Option<(Breach, Vec<String>)>,
}

/// States that are looked through for one in which nothing moves any more.
const REST_STATES_MAX: usize = 10_000;

/// No predecessor: the first state.
const NONE: u32 = u32::MAX;

struct Search<'a, M: Model> {
    model: &'a M,
    known: HashMap<u128, u32>,
    /// For each state, in the order in which they were found: the one before it, and which of its actions led here.
    from: Vec<(u32, u16)>,
    /// Helpful edges of the states looked at, one state after the other: `edges[starts[i]..starts[i + 1]]`.
    starts: Vec<u32>,
    edges: Vec<u32>,
    ends: Vec<u32>,
    transitions: u64,
    depth: u32,
}

/// Gathers what is hashed: one long piece is hashed faster than many short ones.
#[derive(Default)]
struct Gathered(Vec<u8>);

impl Hasher for Gathered {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.0);
        hasher.finish()
    }
}

/// Two hashes of the same, the second with another beginning.
fn fingerprint(state: &impl Hash, gathered: &mut Gathered) -> u128 {
    gathered.0.clear();
    state.hash(gathered);
    let first = gathered.finish();
    gathered.write_u64(first);
    let mut second = DefaultHasher::new();
    second.write_u64(!first);
    second.write(&gathered.0);
    u128::from(first) << 64 | u128::from(second.finish())
}

/// Searches until every state was looked at, a breach was found, or the bound is reached.
pub(crate) fn explore<M: Model>(model: &M, bound: Bound) -> Explored {
    let mut search = Search {
        model,
        known: HashMap::new(),
        from: Vec::new(),
        starts: vec![0],
        edges: Vec::new(),
        ends: Vec::new(),
        transitions: 0,
        depth: 0,
    };
    let (complete, mut wrong) = search.forward(bound);
    if wrong.is_none() {
        wrong = search.first_stuck().map(|state| search.way_to_stuck(state));
    }
    let Search { from, transitions, depth, .. } = search;
    Explored { states: from.len() as u64, transitions, depth, complete, wrong }
}

impl<M: Model> Search<'_, M> {
    /// Looks at states in the order in which they were found. Whether it has come to the end of them.
    fn forward(&mut self, bound: Bound) -> (bool, Option<(Breach, Vec<String>)>) {
        let (begun, mut actions, mut gathered) = (Instant::now(), Vec::new(), Gathered::default());
        let mut open = VecDeque::new();
        let init = self.model.init();
        self.known.insert(fingerprint(&init, &mut gathered), 0);
        self.from.push((NONE, 0));
        open.push_back((init, 0));
        let mut at: u32 = 0;
        while let Some((state, depth)) = open.pop_front() {
            let late = at.is_multiple_of(1024) && bound.time.is_some_and(|time| begun.elapsed() >= time);
            if late || self.from.len() as u64 >= bound.states {
                return (false, None);
            }
            self.depth = depth;
            if self.model.is_end(&state) {
                self.ends.push(at);
            }
            actions.clear();
            self.model.actions(&state, &mut actions);
            for (action, nth) in actions.iter().zip(0_u16..) {
                self.transitions += 1;
                let next = match self.model.next(&state, action) {
                    Ok(next) => next,
                    Err(breach) => {
                        let mut trace = self.trace(at);
                        trace.push(self.model.tell(&state, action));
                        return (false, Some((breach, trace)));
                    }
                };
                let index = u32::try_from(self.from.len()).unwrap_or(NONE);
                let known = *self.known.entry(fingerprint(&next, &mut gathered)).or_insert(index);
                if known == index {
                    self.from.push((at, nth));
                    open.push_back((next, depth + 1));
                }
                if known != at && self.model.helps(&state, action) {
                    self.edges.push(known);
                }
            }
            self.starts.push(u32::try_from(self.edges.len()).unwrap_or(NONE));
            at += 1;
        }
        (true, None)
    }

    /// The first state found from which no end can be reached; those not looked at may lead to one.
    fn first_stuck(&self) -> Option<u32> {
        let (states, looked_at) = (self.from.len(), self.starts.len() - 1);
        // The edges turned round, in the same form.
        let mut starts = vec![0_u32; states + 1];
        for to in &self.edges {
            starts[*to as usize + 1] += 1;
        }
        for index in 0..states {
            starts[index + 1] += starts[index];
        }
        let (mut filled, mut back) = (starts.clone(), vec![0_u32; self.edges.len()]);
        for from in 0..looked_at {
            for to in &self.edges[self.starts[from] as usize..self.starts[from + 1] as usize] {
                back[filled[*to as usize] as usize] = u32::try_from(from).unwrap_or(NONE);
                filled[*to as usize] += 1;
            }
        }
        let mut good = vec![false; states];
        let mut reached: Vec<u32> = self.ends.clone();
        reached.extend((looked_at..states).filter_map(|index| u32::try_from(index).ok()));
        for index in &reached {
            good[*index as usize] = true;
        }
        while let Some(to) = reached.pop() {
            for from in &back[starts[to as usize] as usize..starts[to as usize + 1] as usize] {
                if !std::mem::replace(&mut good[*from as usize], true) {
                    reached.push(*from);
                }
            }
        }
        good.iter().position(|good| !good).and_then(|index| u32::try_from(index).ok())
    }

    /// The actions that lead to a state, each the one after the other.
    fn steps_to(&self, mut index: u32) -> Vec<u16> {
        let mut steps = Vec::new();
        while let (before, nth) = self.from[index as usize]
            && before != NONE
        {
            steps.push(nth);
            index = before;
        }
        steps.reverse();
        steps
    }

    /// Plays the way to a state again, and tells it.
    fn replay(&self, index: u32) -> (M::State, Vec<String>) {
        let (mut state, mut told, mut actions) = (self.model.init(), Vec::new(), Vec::new());
        for nth in self.steps_to(index) {
            actions.clear();
            self.model.actions(&state, &mut actions);
            let Some(action) = actions.get(usize::from(nth)) else { break };
            told.push(self.model.tell(&state, action));
            let Ok(next) = self.model.next(&state, action) else { break };
            state = next;
        }
        (state, told)
    }

    fn trace(&self, index: u32) -> Vec<String> {
        self.replay(index).1
    }

    /// The shortest way to a stuck state, and on from there to one in which nothing moves any more, if there is one.
    fn way_to_stuck(&self, index: u32) -> (Breach, Vec<String>) {
        let (mut state, mut trace) = self.replay(index);
        if let Some((rest, way)) = self.way_to_rest(&state) {
            state = rest;
            trace.extend(way);
        }
        (Breach { invariant: 1, what: self.model.tell_stuck(&state) }, trace)
    }

    fn way_to_rest(&self, stuck: &M::State) -> Option<(M::State, Vec<String>)> {
        let (mut known, mut actions, mut gathered) = (HashSet::new(), Vec::new(), Gathered::default());
        let mut open = VecDeque::from([(stuck.clone(), Vec::new())]);
        known.insert(fingerprint(stuck, &mut gathered));
        while let Some((state, way)) = open.pop_front().filter(|_| known.len() < REST_STATES_MAX) {
            let mut rests = true;
            actions.clear();
            self.model.actions(&state, &mut actions);
            for action in actions.iter().filter(|action| self.model.helps(&state, action)) {
                let Ok(next) = self.model.next(&state, action) else { continue };
                let print = fingerprint(&next, &mut gathered);
                rests &= print == fingerprint(&state, &mut gathered);
                if known.insert(print) {
                    let told = self.model.tell(&state, action);
                    open.push_back((next, way.iter().cloned().chain([told]).collect()));
                }
            }
            if rests {
                return Some((state, way));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter that goes up by one or two, wraps at 12, and may fall into a hole.
    struct Toy {
        hole: Option<u32>,
        forbidden: Option<u32>,
    }

    impl Model for Toy {
        type State = u32;
        type Action = u32;

        fn init(&self) -> u32 {
            0
        }

        fn actions(&self, state: &u32, into: &mut Vec<u32>) {
            if self.hole != Some(*state) {
                into.extend([1, 2]);
            }
        }

        fn next(&self, state: &u32, action: &u32) -> Result<u32, Breach> {
            let next = (state + action) % 12;
            if self.forbidden == Some(next) {
                return Err(Breach { invariant: 2, what: format!("{next} was reached") });
            }
            Ok(next)
        }

        fn is_end(&self, state: &u32) -> bool {
            *state == 11
        }

        fn helps(&self, _: &u32, action: &u32) -> bool {
            *action == 1
        }

        fn tell(&self, state: &u32, action: &u32) -> String {
            format!("{state} + {action}")
        }

        fn tell_stuck(&self, state: &u32) -> String {
            format!("stuck at {state}")
        }
    }

    const NO_BOUND: Bound = Bound { states: 1_000, time: None };

    #[test]
    fn every_state_is_found_once() {
        let found = explore(&Toy { hole: None, forbidden: None }, NO_BOUND);
        assert_eq!(found, Explored { states: 12, transitions: 24, depth: 6, complete: true, wrong: None });
    }

    #[test]
    fn the_shortest_way_to_a_breach_is_told() {
        let found = explore(&Toy { hole: None, forbidden: Some(5) }, NO_BOUND);
        let (breach, trace) = found.wrong.unwrap();
        assert_eq!((breach.invariant, breach.what.as_str()), (2, "5 was reached"));
        assert_eq!(trace, ["0 + 1", "1 + 2", "3 + 2"]);
        assert!(!found.complete);
    }

    #[test]
    fn a_state_that_no_end_can_be_reached_from_is_stuck() {
        let found = explore(&Toy { hole: Some(4), forbidden: None }, NO_BOUND);
        let (breach, trace) = found.wrong.unwrap();
        // Steps of one, which may be counted on, lead into the hole from the first state on; steps of two lead past it.
        assert_eq!(breach.what, "stuck at 4");
        assert_eq!(trace, ["0 + 1", "1 + 1", "2 + 1", "3 + 1"]);
        assert!(found.complete);
    }

    #[test]
    fn a_search_that_reaches_its_bound_is_not_complete_and_guesses_nothing() {
        let found = explore(&Toy { hole: None, forbidden: None }, Bound { states: 5, time: None });
        assert_eq!((found.complete, found.wrong), (false, None));
    }
}
