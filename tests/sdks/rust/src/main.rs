//! Sends, locks, renews, unlocks, completes and deletes with the REST crate, and prints what it saw.
//! Arguments: the address and the file of the authority of a bus, its policy and key, a queue, a
//! topic and a subscription.

use std::{collections::HashMap, env, fs, net::SocketAddr, sync::Arc, time::Duration};

use azure_messaging_servicebus::service_bus::{
    PeekLockResponse, QueueClient, SendMessageOptions, SettableBrokerProperties, TopicClient,
};
use serde_json::{json, Value};

type Failure = Box<dyn std::error::Error>;
const NAMESPACE: &str = "bendybus";

fn seen(locked: &PeekLockResponse) -> Value {
    let broker = locked.broker_properties();
    let headers: Result<Headers, Failure> = locked.custom_properties();
    json!({
        "status": u16::from(*locked.status()),
        "body": locked.body(),
        "id": broker.as_ref().map(|each| each.message_id.clone()),
        "number": broker.as_ref().map(|each| each.sequence_number),
        "count": broker.as_ref().map(|each| each.delivery_count),
        "lives_s": broker.as_ref().map(|each| each.time_to_live),
        "color": headers.ok().map(|each| each.0),
    })
}

struct Headers(String);

impl TryFrom<azure_core::headers::Headers> for Headers {
    type Error = Failure;

    fn try_from(found: azure_core::headers::Headers) -> Result<Self, Failure> {
        let color = azure_core::headers::HeaderName::from_static("color");
        Ok(Headers(found.get_str(&color)?.to_owned()))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let given: Vec<String> = env::args().skip(1).collect();
    let [address, authority, policy, key, queue, topic, subscription] = given.as_slice() else {
        return Err("seven arguments are needed".into());
    };
    let resolved: SocketAddr = address.parse()?;
    let trusted = reqwest::Certificate::from_pem(&fs::read(authority)?)?;
    let client = reqwest::Client::builder()
        .resolve("bendybus.servicebus.windows.net", resolved)
        .add_root_certificate(trusted)
        .build()?;
    let http: Arc<dyn azure_core::HttpClient> = Arc::new(client);
    let queues = QueueClient::new(
        http.clone(),
        NAMESPACE,
        queue.as_str(),
        policy.as_str(),
        key.clone(),
    )?;
    let topics = TopicClient::new(http, NAMESPACE, topic.as_str(), policy.as_str(), key.clone())?;
    let subscriptions = topics.subscription_receiver(subscription);
    let options = SendMessageOptions {
        content_type: Some("text/plain".into()),
        broker_properties: Some(SettableBrokerProperties {
            message_id: Some("one".into()),
            time_to_live: Some(Duration::from_millis(600_500)),
            ..Default::default()
        }),
        custom_properties: Some(HashMap::from([("Color".to_owned(), "\"red\"".to_owned())])),
    };
    let wait = Some(Duration::from_secs(5));
    let mut found = vec![];

    queues.send_message("first", Some(options)).await?;
    let first = queues.peek_lock_message2(wait).await?;
    found.push(seen(&first));
    first.renew_message_lock().await?;
    first.unlock_message().await?;
    let second = queues.peek_lock_message2(wait).await?;
    found.push(seen(&second));
    second.delete_message().await?;
    found.push(json!({ "lost": second.delete_message().await.is_err() }));

    queues.send_message("second", None).await?;
    found.push(json!({ "taken": queues.receive_and_delete_message().await? }));
    let none = queues.peek_lock_message2(Some(Duration::from_secs(1))).await?;
    found.push(json!({ "nothing": u16::from(*none.status()) }));

    topics.topic_sender().send_message("published", None).await?;
    let copy = subscriptions.peek_lock_message2(wait).await?;
    found.push(seen(&copy));
    copy.delete_message().await?;

    println!("{}", Value::from(found));
    Ok(())
}
