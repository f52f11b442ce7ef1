//! The sender of mail against a relay that counts and misbehaves.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: their panic is the report")]

mod common;
#[path = "smtp/relay.rs"]
mod relay;

use std::time::{Duration, Instant};

use common::{Learnt, attempt};
use relay::{Act, Relay, Stage};
use stepwell::{EffectError, Secret};
use stepwell_effects::smtp::lettre::Message;
use stepwell_effects::smtp::{Smtp, SmtpAccepted, SmtpRelay, SmtpSetupError};

const UNHURRIED: Duration = Duration::from_secs(20);

fn mail() -> Message {
    let mail = Message::builder().from("Shop <shop@example.com>".parse().unwrap());
    let mail = mail.to("ann@example.org".parse().unwrap()).bcc("log@example.com".parse().unwrap());
    mail.subject("Your order").body("It is on its way.\r\n.\r\nAnd more.".to_owned()).unwrap()
}

async fn send(smtp: &Smtp, deadline: Duration, mail: Message) -> Result<SmtpAccepted, EffectError> {
    let cx = attempt(Vec::new());
    cx.effect("mail").key("order-7").deadline(deadline).once().call(|call| smtp.send(call, mail)).await
}

fn to(relay: &Relay) -> Smtp {
    Smtp::new(SmtpRelay::plain("127.0.0.1").port(relay.port()).hello("shop.example.com")).unwrap()
}

#[tokio::test]
async fn a_mail_is_handed_in_with_an_id_made_of_its_key() {
    let relay = Relay::start(None).await;
    let accepted = send(&to(&relay), UNHURRIED, mail()).await.unwrap();
    let id = accepted.message_id.strip_prefix('<').unwrap().strip_suffix("@example.com>").unwrap();
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    assert_eq!(accepted.reply, "250 taken as 17");

    let commands = relay.commands();
    let expected = ["EHLO shop.example.com", "MAIL FROM:<shop@example.com>", "RCPT TO:<ann@example.org>"];
    assert_eq!(commands[..3], expected);
    assert_eq!(commands[3..], ["RCPT TO:<log@example.com>", "DATA", "QUIT"]);
    let mails = relay.mails();
    assert_eq!(mails.len(), 1);
    assert!(mails[0].contains(&format!("Message-ID: {}\r\n", accepted.message_id)), "{}", mails[0]);
    assert!(!mails[0].contains("log@example.com"), "{}", mails[0]);
    // A line that is a dot does not end it.
    assert!(mails[0].contains("And more."), "{}", mails[0]);
    // The same in another attempt.
    assert_eq!(send(&to(&relay), UNHURRIED, mail()).await.unwrap().message_id, accepted.message_id);
}

#[tokio::test]
async fn what_a_relay_does_at_each_stage_says_what_became_of_the_mail() {
    for stage in Stage::ALL {
        let of_loss = match stage {
            Stage::Text => Learnt::Unsettled,
            Stage::Greeting | Stage::Hello | Stage::From | Stage::To | Stage::Data => {
                Learnt::NotDone("smtp-connect".into())
            }
        };
        let rows = [
            (Act::Says("451 4.3.0 later"), Learnt::NotDone("smtp-451".into())),
            (Act::Says("554-no\r\n554 5.7.1 never"), Learnt::Refused("smtp-554".into())),
            (Act::Says("421 4.3.2 closing"), Learnt::NotDone("smtp-421".into())),
            (Act::Says("what?"), of_loss.clone()),
            (Act::Says("250 cut off"), of_loss.clone()),
            (Act::Closes, of_loss.clone()),
            (Act::Stalls, of_loss),
        ];
        for (act, expected) in rows {
            // A good reply is a good reply, but where the text is asked for.
            if act == Act::Says("250 cut off") && stage != Stage::Data {
                continue;
            }
            let relay = Relay::start(Some((stage, act))).await;
            let deadline = if act == Act::Stalls { Duration::from_millis(600) } else { UNHURRIED };
            let error = send(&to(&relay), deadline, mail()).await.unwrap_err();
            assert_eq!(Learnt::from(&error), expected, "{act:?} at {stage:?}: {error}");
            assert!(relay.mails().is_empty() || stage == Stage::Text, "{act:?} at {stage:?}");
        }
    }
}

#[tokio::test]
async fn a_relay_that_took_a_mail_and_is_gone_is_no_failure() {
    let relay = Relay::start(None).await.that_stalls_at_quit();
    let begun = Instant::now();
    send(&to(&relay), Duration::from_secs(3), mail()).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert_eq!(relay.mails().len(), 1);
}

#[tokio::test]
async fn where_nobody_listens_nothing_was_sent() {
    let relay = Relay::start(None).await;
    let nobody = {
        let gone = Relay::start(None).await;
        gone.port()
    };
    let relays = [
        SmtpRelay::plain("127.0.0.1").port(nobody),
        SmtpRelay::plain("nobody.invalid"),
        // This one speaks no TLS.
        SmtpRelay::tls("127.0.0.1").port(relay.port()),
    ];
    for relay in relays {
        let smtp = Smtp::new(relay).unwrap();
        let error = send(&smtp, Duration::from_secs(4), mail()).await.unwrap_err();
        assert_eq!(Learnt::from(&error), Learnt::NotDone("smtp-connect".into()), "{smtp:?}: {error}");
    }
    assert!(relay.mails().is_empty());
}

#[tokio::test]
async fn nothing_is_sent_to_a_relay_that_cannot_do_what_is_wanted() {
    let relay = Relay::start(None).await;
    let smtp = Smtp::new(SmtpRelay::starttls("127.0.0.1").port(relay.port())).unwrap();
    let learnt = |error: EffectError| Learnt::from(&error);
    assert_eq!(learnt(send(&smtp, UNHURRIED, mail()).await.unwrap_err()), Learnt::Refused("smtp-relay".into()));

    let builder = Message::builder().from("shop@example.com".parse().unwrap());
    let odd = builder.to("jürgen@example.org".parse().unwrap()).body("Hello".to_owned()).unwrap();
    assert_eq!(learnt(send(&to(&relay), UNHURRIED, odd).await.unwrap_err()), Learnt::Refused("smtp-relay".into()));
    assert!(relay.mails().is_empty());
    assert!(!relay.commands().iter().any(|command| command.starts_with("MAIL")), "{:?}", relay.commands());
}

#[test]
fn a_password_is_never_sent_in_the_clear_nor_shown() {
    let password = || Secret::new("relay-password", "pw-0123456789".to_owned()).unwrap();
    let error = Smtp::new(SmtpRelay::plain("127.0.0.1").login("shop", password())).unwrap_err();
    assert!(matches!(error, SmtpSetupError::InTheClear { .. }), "{error}");
    let smtp = Smtp::new(SmtpRelay::tls("relay.example.com").login("shop", password())).unwrap();
    assert!(!format!("{smtp:?}").contains("pw-"), "{smtp:?}");
}
