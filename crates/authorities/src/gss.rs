//! Tickets of Kerberos that GSSAPI checks, by the keys of this machine: `KRB5_KTNAME` names their file.
//!
//! ```text
//!   client's message ─► context of its exchange ─┬─ goes on ─► a message for the client, and the context waits for its next
//!                        (a new one at first)    ├─ is done ─► a message for the client, and whose ticket it is
//!                                                └─ fails
//! ```
//!
//! Promises that a context is there for as long as its client is, and until an exchange has come to its end; that of an exchange
//! one message is looked at at a time; and that nobody is known before the exchange is done. The names that this machine has
//! among its keys are all good: a ticket for one that is not lets nobody in.
//!
//! Does not speak to the key distribution centre; tickets need not be asked about. Credentials that a client delegates are dropped.
//!
//! //= pg18 gssapi-auth
//! //= rfc2743#section-1.1.3

use std::collections::HashMap;
use std::sync::{Mutex, Weak};

use libgssapi::context::{SecurityContext, ServerCtx};
use machine::{Inquiry, Verdict};

/// The contexts of exchanges that are half done, each with who has asked; by the place of that in memory, which is nobody else's
/// while it is kept here.
#[derive(Default)]
pub(crate) struct HalfDone(Mutex<HashMap<usize, (Weak<()>, ServerCtx)>>);

impl HalfDone {
    /// Looks at a client's next message.
    pub(crate) fn check(&self, inquiry: &Inquiry) -> Verdict {
        let mut context = self.take(&inquiry.asker).unwrap_or_else(|| ServerCtx::new(None));
        let reply = match context.step(inquiry.given.message(), None) {
            Ok(reply) => reply.map_or_else(Vec::new, |reply| reply.to_vec()),
            Err(error) => return Verdict::Denied(format!("accepting GSS security context failed: {error}")),
        };
        if !context.is_complete() {
            self.keep(&inquiry.asker, context);
            return Verdict::Exchanged { reply, principal: None };
        }
        let name = context.source_name().and_then(|name| name.display_name());
        match name.map(|name| String::from_utf8(name.to_vec())) {
            Ok(Ok(principal)) => Verdict::Exchanged { reply, principal: Some(principal) },
            Ok(Err(_)) => Verdict::Denied("the principal's name is no text in UTF-8".to_owned()),
            Err(error) => Verdict::Denied(format!("retrieving GSS user name failed: {error}")),
        }
    }

    /// Drops the contexts whose clients have left. Whether others are left.
    pub(crate) fn sweep(&self) -> bool {
        let mut contexts = self.0.lock().expect("nothing panics while it holds this lock");
        contexts.retain(|_, (asker, _)| asker.strong_count() > 0);
        !contexts.is_empty()
    }

    fn take(&self, asker: &Weak<()>) -> Option<ServerCtx> {
        let mut contexts = self.0.lock().expect("nothing panics while it holds this lock");
        contexts.remove(&asker.as_ptr().addr()).map(|(_, context)| context)
    }

    fn keep(&self, asker: &Weak<()>, context: ServerCtx) {
        let mut contexts = self.0.lock().expect("nothing panics while it holds this lock");
        contexts.insert(asker.as_ptr().addr(), (Weak::clone(asker), context));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_context_is_its_clients_and_goes_with_it() {
        let (contexts, stays, leaves) = (HalfDone::default(), Arc::new(()), Arc::new(()));
        for asker in [&stays, &leaves] {
            contexts.keep(&Arc::downgrade(asker), ServerCtx::new(None));
        }
        drop(leaves);
        assert!(contexts.sweep(), "one is left");
        assert_eq!(contexts.0.lock().expect("nothing panicked").len(), 1);
        assert!(contexts.take(&Arc::downgrade(&Arc::new(()))).is_none(), "it is another's");
        assert!(contexts.take(&Arc::downgrade(&stays)).is_some());
        assert!(!contexts.sweep());
    }
}
