"""LocalStack on a machine without Docker.

Imports nothing of LocalStack, which reads its settings as it is imported.
"""

DYNAMODB_URL = "STEPWELL_DYNAMODB_URL"
"""Where DynamoDB is."""
FUNCTION_ENDPOINT_URL = "STEPWELL_FUNCTION_ENDPOINT_URL"
"""What functions get as `AWS_ENDPOINT_URL`; LocalStack itself unless set."""
FUNCTION_ENDPOINT_URL_DYNAMODB = "STEPWELL_FUNCTION_ENDPOINT_URL_DYNAMODB"
"""What functions get as `AWS_ENDPOINT_URL_DYNAMODB`; as `DYNAMODB_URL` unless set."""
