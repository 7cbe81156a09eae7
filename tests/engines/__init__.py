"""Real stores for the tests: where they come from, how they run, and a network that fails on purpose.

Add `tests/` to the import path (`tests/run` does) and import from here::

    from engines.servers import dynamodb_server, redis_server
    from engines.proxy import Fault, HttpProxy, RedisProxy, drop_reply
"""
