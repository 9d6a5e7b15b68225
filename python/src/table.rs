//! Tables in Arrow's own memory layout, which pandas, polars, DuckDB and pyarrow take as they are, by the Arrow
//! PyCapsule interface.
//!
//! `arrow-pyarrow` would make objects of pyarrow, which then had to be installed.

use std::ffi::CStr;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator,
    RecordBatchReader, StringArray,
};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{DataType, SchemaRef};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use wakepath_results::ResultReader;

use crate::errors::{self, Error};

const SCHEMA: &CStr = c"arrow_schema";
const STREAM: &CStr = c"arrow_array_stream";

/// A table: from results, read on demand in parts, or made by Python.
#[pyclass(frozen, module = "wakepath._engine")]
pub(crate) struct Table {
    source: Source,
    name: String,
    schema: SchemaRef,
}

/// The place of a table's rows.
enum Source {
    Results(Arc<ResultReader>),
    Memory(RecordBatch),
}

type Batches = Box<dyn RecordBatchReader + Send>;

/// A column made by Python; `None` is null.
fn arrow_array(kind: &str, values: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    Ok(match kind {
        "flag" => Arc::new(BooleanArray::from(values.extract::<Vec<Option<bool>>>()?)),
        "whole" => Arc::new(Int64Array::from(values.extract::<Vec<Option<i64>>>()?)),
        "number" => Arc::new(Float64Array::from(values.extract::<Vec<Option<f64>>>()?)),
        _ => Arc::new(StringArray::from(values.extract::<Vec<Option<String>>>()?)),
    })
}

impl Table {
    pub(crate) fn new(reader: &Arc<ResultReader>, name: &str) -> PyResult<Self> {
        let schema = reader
            .read_record_batches(name)
            .map_err(errors::python_error)?
            .schema();
        Ok(Self {
            source: Source::Results(Arc::clone(reader)),
            name: name.to_owned(),
            schema,
        })
    }

    fn batches(&self) -> PyResult<Batches> {
        match &self.source {
            Source::Results(reader) => reader
                .read_record_batches(&self.name)
                .map_err(errors::python_error),
            Source::Memory(rows) => {
                let rows = std::iter::once(Ok(rows.clone()));
                Ok(Box::new(RecordBatchIterator::new(
                    rows,
                    self.schema.clone(),
                )))
            }
        }
    }

    /// Values of several columns.
    fn values<'py>(&self, py: Python<'py>, columns: &[usize]) -> PyResult<Vec<Bound<'py, PyList>>> {
        let lists: Vec<_> = columns.iter().map(|_| PyList::empty(py)).collect();
        for batch in self.batches()? {
            let batch = batch.map_err(errors::python_error)?;
            for (column, list) in columns.iter().zip(&lists) {
                append_value(list, batch.column(*column))?;
            }
        }
        Ok(lists)
    }
}

/// Appends an array's values to a list.
fn append_value(list: &Bound<'_, PyList>, array: &ArrayRef) -> PyResult<()> {
    macro_rules! each {
        ($array:expr) => {
            $array.iter().try_for_each(|value| list.append(value))
        };
    }
    match array.data_type() {
        DataType::Utf8 => each!(array.as_string::<i32>()),
        DataType::Float64 => each!(array.as_primitive::<Float64Type>()),
        DataType::UInt64 => each!(array.as_primitive::<UInt64Type>()),
        DataType::UInt32 => each!(array.as_primitive::<UInt32Type>()),
        DataType::Int64 => each!(array.as_primitive::<Int64Type>()),
        DataType::Boolean => each!(array.as_boolean()),
        other => Err(Error::new_err(format!(
            "a column of {other}, which only Arrow readers take"
        ))),
    }
}

/// A table's rows in parts: columns by name.
#[pyclass(frozen, module = "wakepath._engine")]
pub(crate) struct TableParts {
    batches: Mutex<Batches>,
}

#[pymethods]
impl TableParts {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let next = self
            .batches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .next();
        let Some(batch) = next else {
            return Ok(None);
        };
        let batch = batch.map_err(errors::python_error)?;
        let columns = PyDict::new(py);
        for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            let list = PyList::empty(py);
            append_value(&list, array)?;
            columns.set_item(field.name(), list)?;
        }
        Ok(Some(columns))
    }
}

#[pymethods]
impl Table {
    /// A table from equally long columns: name, kind and values.
    #[staticmethod]
    fn of_columns(
        name: String,
        columns: Vec<(String, String, Bound<'_, PyAny>)>,
    ) -> PyResult<Self> {
        let columns = columns
            .iter()
            .map(|(name, kind, values)| Ok((name, arrow_array(kind, values)?, true)))
            .collect::<PyResult<Vec<_>>>()?;
        let rows =
            RecordBatch::try_from_iter_with_nullable(columns).map_err(errors::python_error)?;
        Ok(Self {
            schema: rows.schema(),
            source: Source::Memory(rows),
            name,
        })
    }

    /// Name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Rows in parts.
    fn parts(&self) -> PyResult<TableParts> {
        Ok(TableParts {
            batches: Mutex::new(self.batches()?),
        })
    }

    /// Column names.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let fields = self.schema.fields().iter();
        fields.map(|field| field.name().clone()).collect()
    }

    /// A column's values.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let index = self.schema.index_of(name).map_err(|_| {
            let known = self.columns().join(", ");
            PyKeyError::new_err(format!("no column is called `{name}`; there are {known}"))
        })?;
        let mut lists = self.values(py, &[index])?;
        Ok(lists.remove(0))
    }

    /// All columns by name.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns: Vec<usize> = (0..self.schema.fields().len()).collect();
        let dict = PyDict::new(py);
        for (name, list) in self.columns().iter().zip(self.values(py, &columns)?) {
            dict.set_item(name, list)?;
        }
        Ok(dict)
    }

    fn __len__(&self) -> PyResult<usize> {
        let mut rows = 0;
        for batch in self.batches()? {
            rows += batch.map_err(errors::python_error)?.num_rows();
        }
        Ok(rows)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.schema).map_err(errors::python_error)?;
        PyCapsule::new_with_value(py, schema, SCHEMA)
    }

    /// A consumer may ask for another schema; it gets this one, which the interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let stream = FFI_ArrowArrayStream::new(self.batches()?);
        PyCapsule::new_with_value(py, stream, STREAM)
    }
}
