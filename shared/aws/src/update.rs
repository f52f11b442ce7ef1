//! One conditional update in the making: expressions, and the values they name.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_dynamodb::types::builders::UpdateBuilder;

/// What to set, what to remove, and when.
#[derive(Debug, Default)]
pub(crate) struct Update {
    set: Vec<String>,
    remove: Vec<String>,
    conditions: Vec<String>,
    names: HashMap<String, String>,
    values: HashMap<String, AttributeValue>,
}

/// An update's parts, as the client takes them.
pub(crate) struct Parts {
    pub(crate) update: String,
    pub(crate) condition: String,
    pub(crate) names: Option<HashMap<String, String>>,
    pub(crate) values: HashMap<String, AttributeValue>,
}

impl Update {
    /// Names a value; the answer stands for it in an expression.
    pub(crate) fn value(&mut self, value: impl Into<Value>) -> String {
        let name = format!(":{}", self.values.len());
        self.values.insert(name.clone(), value.into().0);
        name
    }

    /// Stands for an attribute whose name comes from outside.
    pub(crate) fn name(&mut self, attribute: &str) -> String {
        let name = format!("#{}", self.names.len());
        self.names.insert(name.clone(), attribute.to_owned());
        name
    }

    /// Sets an attribute.
    pub(crate) fn set(&mut self, attribute: &str, value: impl Into<Value>) {
        let value = self.value(value);
        self.set.push(format!("{attribute} = {value}"));
    }

    /// Sets an attribute, or removes it where there is no value.
    pub(crate) fn set_or_remove(&mut self, attribute: &str, value: Option<impl Into<Value>>) {
        match value {
            Some(value) => self.set(attribute, value),
            None => self.remove(attribute),
        }
    }

    /// Sets a path to an expression.
    pub(crate) fn set_to(&mut self, path: &str, expression: &str) {
        self.set.push(format!("{path} = {expression}"));
    }

    /// Removes an attribute or path.
    pub(crate) fn remove(&mut self, path: &str) {
        self.remove.push(path.to_owned());
    }

    /// Adds a condition. All have to hold.
    pub(crate) fn when(&mut self, condition: impl Into<String>) {
        self.conditions.push(condition.into());
    }

    /// Adds the condition that an attribute has this value.
    pub(crate) fn when_is(&mut self, attribute: &str, value: impl Into<Value>) {
        let value = self.value(value);
        self.when(format!("{attribute} = {value}"));
    }

    /// Adds the condition that an attribute is there, or is not.
    pub(crate) fn when_there(&mut self, attribute: &str, there: bool) {
        let function = if there { "attribute_exists" } else { "attribute_not_exists" };
        self.when(format!("{function}({attribute})"));
    }

    pub(crate) fn into_parts(self) -> Parts {
        let clause = |word: &str, parts: &[String]| match parts {
            [] => String::new(),
            parts => format!("{word} {} ", parts.join(", ")),
        };
        Parts {
            update: clause("SET", &self.set) + &clause("REMOVE", &self.remove),
            condition: self.conditions.join(" AND "),
            names: Some(self.names).filter(|names| !names.is_empty()),
            values: self.values,
        }
    }

    /// As a part of a transaction.
    pub(crate) fn into_transaction(self) -> UpdateBuilder {
        let parts = self.into_parts();
        UpdateBuilder::default()
            .update_expression(parts.update)
            .condition_expression(parts.condition)
            .set_expression_attribute_names(parts.names)
            .set_expression_attribute_values(Some(parts.values))
    }
}

/// What an attribute can be set to.
pub(crate) struct Value(AttributeValue);

impl From<AttributeValue> for Value {
    fn from(value: AttributeValue) -> Self {
        Self(value)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self(AttributeValue::N(number.to_string()))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self(AttributeValue::S(text))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self(AttributeValue::S(text.to_owned()))
    }
}
