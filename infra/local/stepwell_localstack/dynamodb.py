"""DynamoDB and its streams, forwarded over HTTP to where `STEPWELL_DYNAMODB_URL` says."""

import os

from localstack.aws.api.dynamodb import DynamodbApi
from localstack.aws.api.dynamodbstreams import DynamodbstreamsApi
from localstack.aws.forwarder import AwsRequestProxy, ForwardingFallbackDispatcher
from localstack.services.plugins import Service, aws_provider

from stepwell_localstack import DYNAMODB_URL


@aws_provider(api="dynamodb", name="http")
def dynamodb() -> Service:
    """The table service."""
    return _forwarded(DynamodbApi())


@aws_provider(api="dynamodbstreams", name="http")
def dynamodbstreams() -> Service:
    """Its streams."""
    return _forwarded(DynamodbstreamsApi())


def _forwarded(api: DynamodbApi | DynamodbstreamsApi) -> Service:
    forward = AwsRequestProxy(os.environ[DYNAMODB_URL])
    # The bare API implements nothing, so each operation falls through to the forwarder.
    return Service.for_provider(api, lambda api: ForwardingFallbackDispatcher(api, forward))
