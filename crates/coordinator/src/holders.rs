//! Mail to holders of tokens and permits: to a worker as it is, and to another process with the pool's name, since ids of pools are each
//! process's own.

use machine::action::Actions;
use machine::mail::ToWorker;
use machine::processes::{ToMember, ToProcess};
use queueing::limiting::{Allowance, Limit};
use units::{Holder, PoolKey};

/// Sends mail about the pool of this name.
pub(crate) fn post(holder: Holder, key: &PoolKey, mail: ToWorker, actions: &mut Actions) {
    match holder {
        Holder::Worker(worker) => actions.post_to_worker(worker, mail),
        Holder::Process(process) => {
            actions.post_to_process(process, ToProcess::ToMember(to_process(key.clone(), mail)))
        }
    }
}

fn to_process(key: PoolKey, mail: ToWorker) -> ToMember {
    match mail {
        ToWorker::Granted(_) => ToMember::Granted { key },
        ToWorker::Dropped { count, reserve, .. } => ToMember::Dropped { key, count, reserve },
        ToWorker::Inquire { .. } => ToMember::Inquire { key },
        ToWorker::Recall { busy, .. } => ToMember::Recall { key, busy },
        ToWorker::Shrink { count, .. } => ToMember::Shrink { key, count },
        other => unreachable!("no other process is sent {other:?}"),
    }
}

/// Answers requests for allowances of a limit.
pub(crate) fn post_allowances(limit: &Limit, allowances: Vec<Allowance>, actions: &mut Actions) {
    for allowance in allowances {
        match allowance.holder {
            Holder::Worker(worker) => {
                actions.post_to_worker(worker, ToWorker::Allow(Box::new((limit.clone(), allowance))));
            }
            Holder::Process(process) => {
                let Allowance { holder: _, granted, answered, remaining, next_at } = allowance;
                let allow = ToMember::Allow { limit: limit.clone(), granted, answered, remaining, next_at };
                actions.post_to_process(process, ToProcess::ToMember(allow));
            }
        }
    }
}
