//! What may be done here, and what each role lets its holder do.

use std::fmt;

use stepwell_core::WorkflowName;
use stepwell_core::limits::NAME_CHARS_MAX;

/// Something that a route needs. Every route needs one, but for those that are open to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// See runs, their histories, approvals and unknowns.
    Look,
    /// Start, signal, cancel, pause, resume and retry runs, resolve effects, let them stand.
    Operate,
    /// Edit, move and discard runs.
    Repair,
    /// Answer approvals. The approval's own rules, on who may decide it, come on top.
    Answer,
    /// Make links that let somebody answer without an account.
    Link,
}

impl Permission {
    /// Each of them.
    pub const ALL: [Self; 5] = [Self::Look, Self::Operate, Self::Repair, Self::Answer, Self::Link];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Look => "look",
            Self::Operate => "operate",
            Self::Repair => "repair",
            Self::Answer => "answer",
            Self::Link => "link",
        }
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A role that is known here. Every other word is a role for approvals alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BuiltIn {
    /// Sees everything, changes nothing.
    Viewer,
    /// On call: drives and repairs runs.
    Operator,
    /// Answers approvals.
    Approver,
    /// May do everything.
    Admin,
}

impl BuiltIn {
    /// Each of them.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Operator, Self::Approver, Self::Admin];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Approver => "approver",
            Self::Admin => "admin",
        }
    }

    /// Whether its holder may do this.
    pub const fn allows(self, permission: Permission) -> bool {
        match (permission, self) {
            (Permission::Look, _)
            | (_, Self::Admin)
            | (Permission::Operate | Permission::Repair, Self::Operator)
            | (Permission::Answer, Self::Approver) => true,
            (Permission::Operate | Permission::Repair, Self::Viewer | Self::Approver)
            | (Permission::Answer, Self::Viewer | Self::Operator)
            // Whoever makes a link can use it: they would answer in another's name.
            | (Permission::Link, Self::Viewer | Self::Operator | Self::Approver) => false,
        }
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == word)
    }
}

/// One role as a credential has it: `operator`, `finance`, or for the runs of one workflow alone `operator@refund`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    role: Role,
    of: Option<WorkflowName>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Role {
    BuiltIn(BuiltIn),
    /// One that workflows name in their approvals.
    Named(String),
}

impl Grant {
    /// `None`: this is no role.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (role, of) = match text.split_once('@') {
            None => (text, None),
            Some((role, of)) => (role, Some(WorkflowName::new(of).ok()?)),
        };
        let role = match BuiltIn::parse(role) {
            Some(known) => Role::BuiltIn(known),
            None => Role::Named(Some(role).filter(|role| is_word(role))?.to_owned()),
        };
        Some(Self { role, of })
    }

    fn is_for(&self, workflow: Option<&WorkflowName>) -> bool {
        self.of.is_none() || self.of.as_ref() == workflow
    }
}

/// Everything that a caller was given. Empty, it lets nobody do anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grants(Vec<Grant>);

impl Grants {
    /// Of these roles. What is no role gives nothing.
    pub(crate) fn of(roles: &[String]) -> Self {
        Self(roles.iter().filter_map(|role| Grant::parse(role)).collect())
    }

    /// Whether this may be done to runs of this workflow, or of every one.
    pub(crate) fn allow(&self, permission: Permission, workflow: Option<&WorkflowName>) -> bool {
        self.allowing(permission).any(|grant| grant.is_for(workflow))
    }

    /// The workflows whose runs this may be done to. `None`: all of them.
    pub(crate) fn workflows(&self, permission: Permission) -> Option<Vec<WorkflowName>> {
        let mut workflows = self.allowing(permission).map(|grant| grant.of.clone()).collect::<Option<Vec<_>>>()?;
        workflows.sort();
        workflows.dedup();
        Some(workflows)
    }

    /// The roles that this caller answers approvals in, of a run of this workflow.
    pub(crate) fn named(&self, workflow: Option<&WorkflowName>) -> Vec<String> {
        let mut named = Vec::new();
        for grant in self.0.iter().filter(|grant| grant.is_for(workflow)) {
            match &grant.role {
                Role::Named(role) if !named.contains(role) => named.push(role.clone()),
                Role::Named(_) | Role::BuiltIn(_) => {}
            }
        }
        named
    }

    /// Whether what may be done depends on the workflow.
    pub(crate) fn is_scoped(&self) -> bool {
        self.0.iter().any(|grant| grant.of.is_some())
    }

    fn allowing(&self, permission: Permission) -> impl Iterator<Item = &Grant> {
        self.0.iter().filter(move |grant| match &grant.role {
            Role::BuiltIn(role) => role.allows(permission),
            Role::Named(_) => false,
        })
    }
}

/// Whether this is a role that credentials can have: a word, and `@` and a workflow's name after it if it is for that one alone.
pub fn is_role(text: &str) -> bool {
    Grant::parse(text).is_some()
}

/// Whether a name or a role can be used in a credential.
pub(crate) fn is_word(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=NAME_CHARS_MAX).contains(&text.len()) && text.chars().all(allowed)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn grants(roles: &[&str]) -> Grants {
        Grants::of(&roles.iter().map(|role| (*role).to_owned()).collect::<Vec<_>>())
    }

    fn workflow(name: &str) -> WorkflowName {
        WorkflowName::new(name).unwrap()
    }

    #[test]
    fn each_role_allows_what_the_plan_says() {
        let table = Permission::ALL.map(|permission| {
            let marks = BuiltIn::ALL.map(|role| if role.allows(permission) { 'x' } else { '-' });
            format!("{permission}: {}", String::from_iter(marks))
        });
        assert_eq!(table, ["look: xxxx", "operate: -x-x", "repair: -x-x", "answer: --xx", "link: ---x"]);
    }

    #[test]
    fn a_role_of_one_workflow_is_worth_nothing_elsewhere() {
        let (refund, other) = (workflow("refund"), workflow("other"));
        let scoped = grants(&["operator@refund", "viewer@order", "viewer@order"]);
        assert!(scoped.is_scoped() && scoped.allow(Permission::Operate, Some(&refund)));
        assert!(!scoped.allow(Permission::Operate, Some(&other)) && !scoped.allow(Permission::Operate, None));
        assert_eq!(scoped.workflows(Permission::Look), Some(vec![workflow("order"), refund.clone()]));
        assert_eq!(scoped.workflows(Permission::Operate), Some(vec![refund]));
        assert_eq!(scoped.workflows(Permission::Answer), Some(vec![]));
        let both = grants(&["operator@refund", "viewer"]);
        assert!(both.allow(Permission::Look, None) && !both.allow(Permission::Repair, Some(&other)));
        assert_eq!(both.workflows(Permission::Look), None);
    }

    #[test]
    fn other_words_are_roles_for_approvals_alone() {
        let named = grants(&["finance", "cfo@refund", "cfo@refund", "approver"]);
        assert_eq!(named.named(Some(&workflow("refund"))), ["finance", "cfo"]);
        assert_eq!(named.named(Some(&workflow("other"))), ["finance"]);
        assert_eq!(named.named(None), ["finance"]);
        for permission in Permission::ALL {
            assert!(!grants(&["finance"]).allow(permission, Some(&workflow("finance"))), "{permission}");
        }
    }

    #[test]
    fn what_is_no_role_gives_nothing() {
        for text in
            ["", "@", "admin@", "@refund", "admin@re fund", "adm in", "admin ", "admin@a@b", "Ädmin", "admin@-a"]
        {
            assert_eq!(Grant::parse(text), None, "{text}");
        }
        // Case counts: these are words for approvals, not the role that they look like.
        for text in ["Admin", "ADMIN", "admin.", "administrator"] {
            assert!(!grants(&[text]).allow(Permission::Look, None), "{text}");
        }
    }
}
