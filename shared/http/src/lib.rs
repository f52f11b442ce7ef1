//! # stepwell-http: the API as one router
