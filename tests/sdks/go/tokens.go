package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// A load whose tokens are good for seconds; see tests/sdks/token_load.py.
type tokenLoad struct {
	Address string `json:"address"`
	Queues  struct {
		Load string `json:"load"`
		Held string `json:"held"`
	} `json:"queues"`
	Policy  string  `json:"policy"`
	Key     string  `json:"key"`
	Lives   int64   `json:"lives"`
	Seconds float64 `json:"seconds"`
	Rest    float64 `json:"rest"`
	Pause   float64 `json:"pause"`
	Held    int     `json:"held"`
	Holds   float64 `json:"holds"`

	began  time.Time
	lock   sync.Mutex
	answer tokenAnswer
}

type tokenAnswer struct {
	Acknowledged []string       `json:"acknowledged"`
	Unsure       []string       `json:"unsure"`
	Completed    map[string]int `json:"completed"`
	Held         []string       `json:"held"`
	Errors       []string       `json:"errors"`
	Tokens       int            `json:"tokens"`
}

// Reads a load from the input, does it, and writes what was acknowledged and completed.
func tokens() {
	load := &tokenLoad{began: time.Now(), answer: noAnswer()}
	check(json.NewDecoder(os.Stdin).Decode(load))
	var work sync.WaitGroup
	for _, each := range []func(){load.send, load.receive, load.hold} {
		work.Add(1)
		go func() {
			defer work.Done()
			each()
		}()
	}
	work.Wait()
	write(load.answer)
}

// Lists that are empty, and not null.
func noAnswer() tokenAnswer {
	return tokenAnswer{
		Acknowledged: []string{}, Unsure: []string{}, Completed: map[string]int{}, Held: []string{}, Errors: []string{},
	}
}

// Signs a token whenever the SDK asks for one.
func (l *tokenLoad) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	l.noted(func() { l.answer.Tokens++ })
	ends := time.Now().Unix() + l.Lives
	resource := url.QueryEscape("sb://" + l.Address + "/")
	signer := hmac.New(sha256.New, []byte(l.Key))
	fmt.Fprintf(signer, "%s\n%d", resource, ends)
	signature := url.QueryEscape(base64.StdEncoding.EncodeToString(signer.Sum(nil)))
	token := fmt.Sprintf("SharedAccessSignature sr=%s&sig=%s&se=%d&skn=%s", resource, signature, ends, l.Policy)
	return azcore.AccessToken{Token: token, ExpiresOn: time.Unix(ends, 0)}, nil
}

func (l *tokenLoad) client() *sb.Client {
	return must(sb.NewClient(l.Address, l, &sb.ClientOptions{
		RetryOptions: sb.RetryOptions{MaxRetries: 3, RetryDelay: 500 * time.Millisecond},
	}))
}

func (l *tokenLoad) passed() float64 { return time.Since(l.began).Seconds() }

func (l *tokenLoad) noted(note func()) {
	l.lock.Lock()
	defer l.lock.Unlock()
	note()
}

func (l *tokenLoad) failed(what string, err error) {
	l.noted(func() {
		text := fmt.Sprintf("%.1f s: %s: %s %v", l.passed(), what, reason(err), err)
		l.answer.Errors = append(l.answer.Errors, text)
	})
	time.Sleep(time.Second)
}

func (l *tokenLoad) send() {
	client := l.client()
	sender := must(client.NewSender(l.Queues.Load, nil))
	for number := 0; l.passed() < l.Seconds; number++ {
		name := strconv.Itoa(number)
		ctx, stop := context.WithTimeout(context.Background(), 15*time.Second)
		err := sender.SendMessage(ctx, &sb.Message{Body: []byte(name), MessageID: &name}, nil)
		stop()
		if err != nil {
			l.failed("send", err)
			l.noted(func() { l.answer.Unsure = append(l.answer.Unsure, name) })
			if unauthorized(err) {
				_ = sender.Close(context.Background())
				sender = must(client.NewSender(l.Queues.Load, nil))
			}
			continue
		}
		l.noted(func() { l.answer.Acknowledged = append(l.answer.Acknowledged, name) })
		time.Sleep(time.Duration(l.Pause * float64(time.Second)))
	}
}

// Whether a token ended. The SDK does not open such a link again, as it does others.
func unauthorized(err error) bool {
	var known *sb.Error
	return errors.As(err, &known) && known.Code == sb.CodeUnauthorizedAccess
}

// A receiver that is opened again when its token ended.
type reopened struct {
	load     *tokenLoad
	client   *sb.Client
	queue    string
	receiver *sb.Receiver
}

func (l *tokenLoad) receiver(queue string) *reopened {
	client := l.client()
	return &reopened{l, client, queue, must(client.NewReceiverForQueue(queue, nil))}
}

func (r *reopened) failed(what string, err error) {
	r.load.failed(what, err)
	if unauthorized(err) {
		_ = r.receiver.Close(context.Background())
		r.receiver = must(r.client.NewReceiverForQueue(r.queue, nil))
	}
}

func (l *tokenLoad) missing() bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	for _, name := range l.answer.Acknowledged {
		if l.answer.Completed[name] == 0 {
			return true
		}
	}
	return false
}

func (r *reopened) some(count int) []*sb.ReceivedMessage {
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	found, err := r.receiver.ReceiveMessages(ctx, count, nil)
	if err != nil && ctx.Err() == nil {
		r.failed("receive", err)
	}
	return found
}

func (r *reopened) complete(message *sb.ReceivedMessage) error {
	ctx, stop := context.WithTimeout(context.Background(), 15*time.Second)
	defer stop()
	err := r.receiver.CompleteMessage(ctx, message, nil)
	if err != nil {
		r.failed("complete", err)
	}
	return err
}

func (l *tokenLoad) receive() {
	receiver := l.receiver(l.Queues.Load)
	for l.passed() < l.Seconds+1 || (l.missing() && l.passed() < l.Seconds+l.Rest) {
		for _, message := range receiver.some(20) {
			if receiver.complete(message) == nil {
				l.noted(func() { l.answer.Completed[string(message.Body)]++ })
			}
		}
	}
}

// Receives all of a queue at first, and completes it when the disturbances are over.
func (l *tokenLoad) hold() {
	receiver := l.receiver(l.Queues.Held)
	found := []*sb.ReceivedMessage{}
	for len(found) < l.Held {
		found = append(found, receiver.some(l.Held-len(found))...)
	}
	time.Sleep(time.Duration((l.Holds - l.passed()) * float64(time.Second)))
	for _, message := range found {
		for range 30 {
			if receiver.complete(message) == nil {
				l.noted(func() { l.answer.Held = append(l.answer.Held, string(message.Body)) })
				break
			}
		}
	}
}
