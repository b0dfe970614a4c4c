//! Events of one instant, whose order a file does not tell.

use std::collections::{HashMap, VecDeque};

use super::Stream;
use super::builder::Builder;
use super::error::Fault;

/// What an event does with a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockUse {
    pub stream: Stream,
    pub address: u64,
    pub frees: bool,
}

/// Adds events of one instant.
///
/// An event that does not fit yet (an allocation of a live block, a free of one that is not) waits for one of the
/// same block that makes it fit. What still waits at the end of the instant is added as it stands.
pub(crate) fn add_together<E>(
    builder: &mut Builder,
    together: &[E],
    use_of: impl Fn(&E) -> Option<BlockUse>,
    mut add: impl FnMut(&mut Builder, &E) -> Result<(), Fault>,
) -> Result<(), Fault> {
    if let [event] = together {
        return add(builder, event);
    }
    let fits = |builder: &Builder, event: &E| {
        use_of(event).is_none_or(|block| builder.is_live(block.stream, block.address) == block.frees)
    };
    let mut waiting: HashMap<(u32, u32, u64), VecDeque<usize>> = HashMap::new();
    for (index, event) in together.iter().enumerate() {
        let block = use_of(event).map(|block| (block.stream.process, block.stream.device, block.address));
        if let Some(block) = block
            && !fits(builder, event)
        {
            waiting.entry(block).or_default().push_back(index);
            continue;
        }
        add(builder, event)?;
        let Some(queue) = block.and_then(|block| waiting.get_mut(&block)) else {
            continue;
        };
        while let Some(&next) = queue.front().filter(|next| fits(builder, &together[**next])) {
            queue.pop_front();
            add(builder, &together[next])?;
        }
    }
    let mut left: Vec<usize> = waiting.into_values().flatten().collect();
    left.sort_unstable();
    left.iter().try_for_each(|&index| add(builder, &together[index]))
}
