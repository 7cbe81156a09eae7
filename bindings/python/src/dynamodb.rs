//! DynamoDB requests as the parameters that boto3 takes, but for `TableName`.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use tenure_core::io::Call;
use tenure_core::wire::Texts;
use tenure_core::wire::dynamodb::{
    self as wire, Attribute, Item, Operation, RowTexts, Schema, Value,
};

/// A table's key, owned.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) hash_key: String,
    pub(crate) sort_key: Option<(String, String)>,
}

impl Key {
    pub(crate) fn schema(&self) -> Schema<'_> {
        Schema {
            hash_key: &self.hash_key,
            sort_key: self.sort_key.as_ref().map(|(name, value)| (name.as_str(), value.as_str())),
        }
    }
}

/// The texts of a row, owned.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnedRow {
    resource_id: Option<String>,
    lease_expiration: Option<String>,
    version: Option<String>,
}

impl OwnedRow {
    pub(crate) fn new(row: RowTexts<'_>) -> Self {
        Self {
            resource_id: row.resource_id.map(str::to_owned),
            lease_expiration: row.lease_expiration.map(str::to_owned),
            version: row.version.map(str::to_owned),
        }
    }

    pub(crate) fn from_parts(parts: (Option<String>, Option<String>, Option<String>)) -> Self {
        Self { resource_id: parts.0, lease_expiration: parts.1, version: parts.2 }
    }

    pub(crate) fn texts(&self) -> RowTexts<'_> {
        RowTexts {
            resource_id: self.resource_id.as_deref(),
            lease_expiration: self.lease_expiration.as_deref(),
            version: self.version.as_deref(),
        }
    }
}

/// A request, owned. Python's values are made of it when no lock is held: making them can run
/// anything, from a garbage collection on.
pub(crate) struct OwnedRequest {
    operation: Operation,
    key: Vec<(String, String)>,
    condition: &'static str,
    update: &'static str,
    names: Vec<(&'static str, String)>,
    values: Vec<(&'static str, &'static str, String)>,
    consistent: bool,
}

/// `None` if the call cannot be put.
pub(crate) fn request(
    key: &Key,
    texts: &Texts<'_>,
    row: &OwnedRow,
    call: &Call,
) -> Option<OwnedRequest> {
    let schema = key.schema();
    let request = wire::lower(&schema, texts, Some(row.texts()), call)?;
    let value = |value: &Value<'_>| match value {
        Value::Number(number) => ("N", number.to_string()),
        Value::NumberText(text) => ("N", (*text).to_owned()),
        Value::Text(text) => ("S", (*text).to_owned()),
        Value::Version(text) => ("S", text.as_str().to_owned()),
    };
    let owned = |text: &str| text.to_owned();
    Some(OwnedRequest {
        operation: request.operation,
        key: request.key.iter().map(|(name, value)| (owned(name), owned(value))).collect(),
        condition: request.condition,
        update: request.update,
        names: request.names.iter().map(|(place, name)| (*place, owned(name))).collect(),
        values: request
            .values
            .iter()
            .map(|(place, of)| {
                let (kind, text) = value(of);
                (*place, kind, text)
            })
            .collect(),
        consistent: request.consistent,
    })
}

impl OwnedRequest {
    /// `(operation, parameters)`.
    pub(crate) fn into_python<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let parameters = PyDict::new(py);
        let key = PyDict::new(py);
        for (name, value) in &self.key {
            key.set_item(name, attribute(py, "S", value)?)?;
        }
        parameters.set_item("Key", key)?;
        if self.operation == Operation::GetItem {
            parameters.set_item("ConsistentRead", self.consistent)?;
        } else {
            parameters.set_item("UpdateExpression", self.update)?;
            parameters.set_item("ConditionExpression", self.condition)?;
            let names = PyDict::new(py);
            for (placeholder, name) in &self.names {
                names.set_item(placeholder, name)?;
            }
            parameters.set_item("ExpressionAttributeNames", names)?;
            let values = PyDict::new(py);
            for (placeholder, kind, text) in &self.values {
                values.set_item(placeholder, attribute(py, kind, text)?)?;
            }
            parameters.set_item("ExpressionAttributeValues", values)?;
            parameters.set_item("ReturnValues", "ALL_NEW")?;
            parameters.set_item("ReturnValuesOnConditionCheckFailure", "ALL_OLD")?;
        }
        (self.operation.name(), parameters).into_pyobject(py)
    }
}

fn attribute<'py>(py: Python<'py>, kind: &str, value: &str) -> PyResult<Bound<'py, PyDict>> {
    let attribute = PyDict::new(py);
    attribute.set_item(kind, value)?;
    Ok(attribute)
}

/// An item of a reply, copied out of its dictionary.
pub(crate) struct OwnedItem(Vec<(String, OwnedAttribute)>);

enum OwnedAttribute {
    Number(String),
    Text(String),
    Other,
}

impl OwnedItem {
    pub(crate) fn new(item: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut attributes = Vec::with_capacity(item.len());
        for (name, value) in item {
            let text = |kind: &str| -> PyResult<Option<String>> {
                match value.cast::<PyDict>()?.get_item(kind)? {
                    Some(text) => text.extract().map(Some),
                    None => Ok(None),
                }
            };
            let attribute = match (text("S")?, text("N")?) {
                (Some(text), _) => OwnedAttribute::Text(text),
                (None, Some(number)) => OwnedAttribute::Number(number),
                (None, None) => OwnedAttribute::Other,
            };
            attributes.push((name.extract()?, attribute));
        }
        Ok(Self(attributes))
    }

    pub(crate) fn of(item: Option<&Bound<'_, PyDict>>) -> PyResult<Option<Self>> {
        item.map(Self::new).transpose()
    }
}

impl Item for OwnedItem {
    fn get(&self, name: &str) -> Option<Attribute<'_>> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, attribute)| match attribute {
            OwnedAttribute::Number(text) => Attribute::Number(text),
            OwnedAttribute::Text(text) => Attribute::Text(text),
            OwnedAttribute::Other => Attribute::Other,
        })
    }

    fn has_others(&self, known: &dyn Fn(&str) -> bool) -> bool {
        self.0.iter().any(|(name, _)| !known(name))
    }
}
