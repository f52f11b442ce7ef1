//! # stepwell-lambda: the engine inside AWS Lambda
