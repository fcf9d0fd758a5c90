//! Redis Sentinel: finds the primary of a replicated store.

use redis::{AsyncConnectionConfig, aio::MultiplexedConnection};
use tokio::{task::JoinSet, time::timeout};

use super::address::{StoreHost, StoreSettings};
use super::redis_connection::{NODE_TIMEOUT, connection_info, describe_error, stream};

/// The current primary, according to the first Sentinel that knows it.
pub(super) async fn find_primary(
    settings: &StoreSettings,
    sentinels: &[StoreHost],
    name: &str,
) -> Result<StoreHost, String> {
    let mut last_error = String::new();
    for sentinel in sentinels {
        let request = async {
            let stream = stream(sentinel, settings.tls.as_ref()).await?;
            let login = connection_info(&settings.sentinel_user, &settings.sentinel_password);
            let config = AsyncConnectionConfig::new();
            let (mut connection, driver_future) =
                MultiplexedConnection::new_with_config(&login, stream, config).await?;
            let mut driver = JoinSet::new();
            driver.spawn(driver_future);
            let mut command = redis::cmd("SENTINEL");
            command.arg("get-master-addr-by-name").arg(name).query_async(&mut connection).await
        };
        last_error = match timeout(NODE_TIMEOUT, request).await {
            Ok(Ok(Some((name, port)))) => {
                let name: String = name;
                return Ok(StoreHost { name: name.into(), port });
            }
            Ok(Ok(None)) => format!("Sentinel {sentinel} does not know the primary `{name}`"),
            Ok(Err(error)) => describe_error(&error, settings),
            Err(_) => format!("no response of Sentinel {sentinel} within {NODE_TIMEOUT:?}"),
        };
    }
    Err(last_error)
}
