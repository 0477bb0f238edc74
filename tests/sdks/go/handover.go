package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

const handoverWait = 5 * time.Second

// handoverPlan is what tests/sdks/test_handover.py asks for.
type handoverPlan struct {
	Connection, Load, Later string
	Seconds, Rest           float64
}

// handoverLoad works while its front end is replaced, and takes note of each error.
type handoverLoad struct {
	lock         sync.Mutex
	number       int
	Acknowledged []string       `json:"acknowledged"`
	Completed    map[string]int `json:"completed"`
	Done         map[string]int `json:"done"`
	Errors       []string       `json:"errors"`
}

// handover reads a plan from the input, and prints what became of it.
func handover() {
	var plan handoverPlan
	check(json.NewDecoder(os.Stdin).Decode(&plan))
	client, err := azservicebus.NewClientFromConnectionString(plan.Connection, nil)
	check(err)
	sender, err := client.NewSender(plan.Load, nil)
	check(err)
	receiver, err := client.NewReceiverForQueue(plan.Load, nil)
	check(err)
	planner, err := client.NewSender(plan.Later, nil)
	check(err)
	peeker, err := client.NewReceiverForQueue(plan.Later, nil)
	check(err)
	load := &handoverLoad{
		Acknowledged: []string{}, Completed: map[string]int{}, Done: map[string]int{}, Errors: []string{},
	}
	load.run(time.Duration(plan.Seconds*float64(time.Second)), map[string]func() error{
		"send":    func() error { return load.send(sender) },
		"receive": func() error { return load.receive(receiver) },
		"schedule": func() error {
			messages := []*azservicebus.Message{{Body: []byte("x")}}
			_, err := planner.ScheduleMessages(context.Background(), messages, time.Now().Add(time.Hour), nil)
			return err
		},
		"peek": func() error {
			_, err := peeker.PeekMessages(context.Background(), 3, nil)
			return err
		},
	})
	ends := time.Now().Add(time.Duration(plan.Rest * float64(time.Second)))
	for load.missing() && time.Now().Before(ends) {
		check(load.receive(receiver))
	}
	check(json.NewEncoder(os.Stdout).Encode(load))
}

func (load *handoverLoad) run(lasts time.Duration, works map[string]func() error) {
	ends := time.Now().Add(lasts)
	var all sync.WaitGroup
	for name, work := range works {
		all.Add(1)
		go func() {
			defer all.Done()
			for time.Now().Before(ends) {
				load.note(name, work())
				time.Sleep(10 * time.Millisecond)
			}
		}()
	}
	all.Wait()
}

func (load *handoverLoad) note(name string, err error) {
	load.lock.Lock()
	defer load.lock.Unlock()
	if err != nil {
		load.Errors = append(load.Errors, fmt.Sprintf("%s: %v", name, err))
	} else {
		load.Done[name]++
	}
}

func (load *handoverLoad) send(sender *azservicebus.Sender) error {
	body := strconv.Itoa(load.number)
	load.number++
	err := sender.SendMessage(context.Background(), &azservicebus.Message{Body: []byte(body)}, nil)
	if err == nil {
		load.lock.Lock()
		load.Acknowledged = append(load.Acknowledged, body)
		load.lock.Unlock()
	}
	return err
}

func (load *handoverLoad) receive(receiver *azservicebus.Receiver) error {
	waits, cancel := context.WithTimeout(context.Background(), handoverWait)
	defer cancel()
	messages, err := receiver.ReceiveMessages(waits, 10, nil)
	if err != nil && waits.Err() == nil {
		return err
	}
	for _, message := range messages {
		if err := receiver.CompleteMessage(context.Background(), message, nil); err != nil {
			return err
		}
		load.lock.Lock()
		load.Completed[string(message.Body)]++
		load.lock.Unlock()
	}
	return nil
}

func (load *handoverLoad) missing() bool {
	for _, body := range load.Acknowledged {
		if load.Completed[body] == 0 {
			return true
		}
	}
	return false
}
