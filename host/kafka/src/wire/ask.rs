//! The requests that this client sends: names, versions, and the shapes of their answers.

use super::shape::{Field, INT8, INT16, INT32, INT64, Kind, Shape, TEXT, field};
use kafka_protocol::messages as m;
use kafka_protocol::protocol::Request;

/// A request of this client.
pub(crate) trait Ask: Request {
    /// Its name in Kafka's documents.
    const NAME: &'static str;
    /// Lowest and highest version that this client speaks. The highest that the broker has too is taken.
    const SPOKEN: (i16, i16);
    /// First broker that has one of them.
    const SINCE: &'static str;
    /// Of its answer, in the versions above.
    const SHAPE: Shape;
}

/// More than any version: the encoding stays as it was.
const NEVER: i16 = i16::MAX;

impl Ask for m::ApiVersionsRequest {
    const NAME: &'static str = "ApiVersions";
    // From 3 on an answer holds features in tagged fields, which nobody here needs.
    const SPOKEN: (i16, i16) = (0, 2);
    const SINCE: &'static str = "Kafka 0.10";
    const SHAPE: Shape = Shape { flexible_from: 3, fields: &[INT16, field(Kind::List(&[INT16, INT16, INT16])), INT32.since(1)] };
}

impl Ask for m::SaslHandshakeRequest {
    const NAME: &'static str = "SaslHandshake";
    // By 0 what follows would not be SaslAuthenticate, but bare bytes.
    const SPOKEN: (i16, i16) = (1, 1);
    const SINCE: &'static str = "Kafka 1.0";
    const SHAPE: Shape = Shape { flexible_from: NEVER, fields: &[INT16, field(Kind::Texts)] };
}

impl Ask for m::SaslAuthenticateRequest {
    const NAME: &'static str = "SaslAuthenticate";
    const SPOKEN: (i16, i16) = (0, 2);
    const SINCE: &'static str = "Kafka 1.0";
    const SHAPE: Shape = Shape { flexible_from: 2, fields: &[INT16, TEXT, field(Kind::Blob), INT64.since(1)] };
}

impl Ask for m::FindCoordinatorRequest {
    const NAME: &'static str = "FindCoordinator";
    // From 4 on for many ids at once.
    const SPOKEN: (i16, i16) = (1, 4);
    const SINCE: &'static str = "Kafka 0.11";
    const SHAPE: Shape = Shape {
        flexible_from: 3,
        fields: &[
            INT32,
            INT16.until(3),
            TEXT.until(3),
            INT32.until(3),
            TEXT.until(3),
            INT32.until(3),
            field(Kind::List(&[TEXT, INT32, TEXT, INT32, INT16, TEXT])).since(4),
        ],
    };
}

impl Ask for m::EndTxnRequest {
    const NAME: &'static str = "EndTxn";
    // Never 5: it ends a transaction of the newer protocol, which librdkafka doesn't open. A cluster without that protocol
    // answers it by an error and the id is stuck from then on, until its coordinator restarts.
    const SPOKEN: (i16, i16) = (2, 4);
    const SINCE: &'static str = "Kafka 2.7";
    const SHAPE: Shape = Shape { flexible_from: 3, fields: &[INT32, INT16] };
}

impl Ask for m::InitProducerIdRequest {
    const NAME: &'static str = "InitProducerId";
    const SPOKEN: (i16, i16) = (0, 4);
    const SINCE: &'static str = "Kafka 0.11";
    const SHAPE: Shape = Shape { flexible_from: 2, fields: &[INT32, INT16, INT64, INT16] };
}

impl Ask for m::DescribeTransactionsRequest {
    const NAME: &'static str = "DescribeTransactions";
    const SPOKEN: (i16, i16) = (0, 0);
    const SINCE: &'static str = "Kafka 3.0";
    const SHAPE: Shape = Shape {
        flexible_from: 0,
        fields: &[
            INT32,
            field(Kind::List(&[
                INT16,
                TEXT,
                TEXT,
                INT32,
                INT64,
                INT64,
                INT16,
                field(Kind::List(&[TEXT, field(Kind::Items(4))])),
            ])),
        ],
    };
}

impl Ask for m::ListTransactionsRequest {
    const NAME: &'static str = "ListTransactions";
    // From 2 on the broker filters by id.
    const SPOKEN: (i16, i16) = (0, 2);
    const SINCE: &'static str = "Kafka 3.0";
    const SHAPE: Shape =
        Shape { flexible_from: 0, fields: &[INT32, INT16, field(Kind::Texts), field(Kind::List(&[TEXT, INT64, TEXT]))] };
}

/// One setting in an answer to DescribeConfigs: name, value, read-only, source, sensitive, synonyms, type, documentation.
const CONFIG: &[Field] = &[TEXT, TEXT, INT8, INT8, INT8, field(Kind::List(&[TEXT, TEXT, INT8])), INT8.since(3), TEXT.since(3)];

impl Ask for m::DescribeConfigsRequest {
    const NAME: &'static str = "DescribeConfigs";
    const SPOKEN: (i16, i16) = (1, 4);
    const SINCE: &'static str = "Kafka 1.1";
    const SHAPE: Shape =
        Shape { flexible_from: 4, fields: &[INT32, field(Kind::List(&[INT16, TEXT, INT8, TEXT, field(Kind::List(CONFIG))]))] };
}

/// One partition in an answer to Metadata: error, index, leader, leader's epoch, replicas, those in sync, those offline.
const PARTITION: &[Field] = &[INT16, INT32, INT32, INT32, field(Kind::Items(4)), field(Kind::Items(4)), field(Kind::Items(4))];

impl Ask for m::MetadataRequest {
    const NAME: &'static str = "Metadata";
    // From 7 on with the epoch of a partition's leader; 10 and later name topics by their uuid.
    const SPOKEN: (i16, i16) = (7, 9);
    const SINCE: &'static str = "Kafka 2.1";
    const SHAPE: Shape = Shape {
        flexible_from: 9,
        fields: &[
            INT32,
            field(Kind::List(&[INT32, TEXT, INT32, TEXT])),
            TEXT,
            INT32,
            field(Kind::List(&[INT16, TEXT, INT8, field(Kind::List(PARTITION)), INT32.since(8)])),
            INT32.since(8),
        ],
    };
}
