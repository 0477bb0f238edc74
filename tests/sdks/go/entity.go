package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

const (
	subscription = "all"
	wait         = 20 * time.Second
)

// A queue or topic, and clients for it: one with the right to send, one with that to listen.
type entity struct {
	job
	ctx       context.Context
	clients   map[string]*sb.Client
	theSender *sb.Sender
}

func (e *entity) client(connectionString string) *sb.Client {
	if found := e.clients[connectionString]; found != nil {
		return found
	}
	made := must(sb.NewClientFromConnectionString(connectionString, &sb.ClientOptions{
		RetryOptions: sb.RetryOptions{MaxRetries: 2, RetryDelay: 200 * time.Millisecond},
	}))
	if e.clients == nil {
		e.clients = map[string]*sb.Client{}
	}
	e.clients[connectionString] = made
	return made
}

func (e *entity) sending() *sb.Client   { return e.client(e.Send) }
func (e *entity) listening() *sb.Client { return e.client(e.Listen) }

func (e *entity) sender() *sb.Sender {
	if e.theSender == nil {
		e.theSender = must(e.sending().NewSender(e.Entity, nil))
	}
	return e.theSender
}

func (e *entity) receiver(options *sb.ReceiverOptions) *sb.Receiver {
	if e.Topic {
		return must(e.listening().NewReceiverForSubscription(e.Entity, subscription, options))
	}
	return must(e.listening().NewReceiverForQueue(e.Entity, options))
}

func (e *entity) deadLetters() *sb.Receiver {
	return e.receiver(&sb.ReceiverOptions{SubQueue: sb.SubQueueDeadLetter})
}

func (e *entity) session(id string) *sb.SessionReceiver {
	return must(e.trySession(id))
}

func (e *entity) trySession(id string) (*sb.SessionReceiver, error) {
	if e.Topic {
		return e.listening().AcceptSessionForSubscription(e.ctx, e.Entity, subscription, id, nil)
	}
	return e.listening().AcceptSessionForQueue(e.ctx, e.Entity, id, nil)
}

func (e *entity) send(messages ...*sb.Message) {
	for _, message := range messages {
		check(e.sender().SendMessage(e.ctx, message, nil))
	}
}

// Sends messages at once.
func (e *entity) sendAll(messages []*sb.Message) {
	batch := must(e.sender().NewMessageBatch(e.ctx, nil))
	for _, message := range messages {
		check(batch.AddMessage(message, nil))
	}
	check(e.sender().SendMessageBatch(e.ctx, batch, nil))
}

func (e *entity) close() {
	// The operation may have used up its time.
	ctx, stop := context.WithTimeout(context.Background(), wait)
	defer stop()
	for _, client := range e.clients {
		_ = client.Close(ctx)
	}
}

// What receivers of messages and of sessions have in common.
type receiver interface {
	ReceiveMessages(context.Context, int, *sb.ReceiveMessagesOptions) ([]*sb.ReceivedMessage, error)
	ReceiveDeferredMessages(context.Context, []int64, *sb.ReceiveDeferredMessagesOptions) ([]*sb.ReceivedMessage, error)
	PeekMessages(context.Context, int, *sb.PeekMessagesOptions) ([]*sb.ReceivedMessage, error)
	CompleteMessage(context.Context, *sb.ReceivedMessage, *sb.CompleteMessageOptions) error
	AbandonMessage(context.Context, *sb.ReceivedMessage, *sb.AbandonMessageOptions) error
	DeferMessage(context.Context, *sb.ReceivedMessage, *sb.DeferMessageOptions) error
	DeadLetterMessage(context.Context, *sb.ReceivedMessage, *sb.DeadLetterOptions) error
}

// Receives so many messages; fewer if there are none for a while.
func (e *entity) take(from receiver, count int) []*sb.ReceivedMessage {
	found := []*sb.ReceivedMessage{}
	for len(found) < count {
		ctx, stop := context.WithTimeout(e.ctx, wait)
		more, err := from.ReceiveMessages(ctx, count-len(found), nil)
		stop()
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		check(err)
		found = append(found, more...)
	}
	equal(len(found), count)
	return found
}

func (e *entity) takeOne(from receiver) *sb.ReceivedMessage {
	return e.take(from, 1)[0]
}

func (e *entity) complete(from receiver, messages ...*sb.ReceivedMessage) {
	for _, message := range messages {
		check(from.CompleteMessage(e.ctx, message, nil))
	}
}

func (e *entity) completeAll(from receiver, count int) []*sb.ReceivedMessage {
	found := e.take(from, count)
	e.complete(from, found...)
	return found
}

func text(body string) *sb.Message { return &sb.Message{Body: []byte(body)} }

func several(count int, changes ...func(*sb.Message)) []*sb.Message {
	found := []*sb.Message{}
	for _, number := range numbers(count) {
		message := text(number)
		for _, change := range changes {
			change(message)
		}
		found = append(found, message)
	}
	return found
}

func inSession(id string) func(*sb.Message) {
	return func(message *sb.Message) { message.SessionID = &id }
}

func numbers(count int) []string {
	found := []string{}
	for number := range count {
		found = append(found, strconv.Itoa(number))
	}
	return found
}

func bodies(messages []*sb.ReceivedMessage) []string {
	found := []string{}
	for _, message := range messages {
		found = append(found, string(message.Body))
	}
	return found
}

func sorted(texts []string) []string {
	return slices.SortedFunc(slices.Values(texts), func(one, other string) int {
		return must(strconv.Atoi(one)) - must(strconv.Atoi(other))
	})
}

func pointer[T any](value T) *T { return &value }

func check(err error) {
	if err != nil {
		panic(fmt.Sprintf("%T: %v", err, err))
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func equal(found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		panic(fmt.Sprintf("%#v is not %#v", found, expected))
	}
}

func truth(found bool, what string) {
	if !found {
		panic("not so: " + what)
	}
}

// What an operation returns: an error of the SDK with a code.
func refused(err error, code sb.Code) {
	var found *sb.Error
	if !errors.As(err, &found) || found.Code != code {
		panic(fmt.Sprintf("%T %v, though an error %q was expected", err, err, code))
	}
}
