// Operations of azservicebus, as a program does them; what they are: tests/azure_sdk/operations.toml.
//
// Input: one JSON array of jobs. Output: a line of JSON for each; its error is null if all is well. A job
// "error:NAME" is a call of failures.go, and "value" one of values.go; its answer has what was found.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	atOnce = 8
	most   = 2 * time.Minute
)

// What a test asks for: send, listen and manage are connection strings.
type job struct {
	ID        string `json:"id"`
	Operation string `json:"operation"`
	Entity    string `json:"entity"`
	Topic     bool   `json:"topic"`
	Send      string `json:"send"`
	Listen    string `json:"listen"`
	Key       string `json:"key"`
	Manage    string `json:"manage"`
}

type answer struct {
	ID    string  `json:"id"`
	Error *string `json:"error"`
	Found any     `json:"found,omitempty"`
}

var operations = map[string]func(*entity){
	"send_one":                    sendOne,
	"send_a_list":                 sendAList,
	"send_a_batch":                sendABatch,
	"send_too_much":               sendTooMuch,
	"send_by_key":                 sendByKey,
	"send_on":                     sendOn,
	"send_twice":                  sendTwice,
	"schedule":                    schedule,
	"schedule_soon":               scheduleSoon,
	"cancel":                      cancel,
	"send_without_right":          sendWithoutRight,
	"receive_many":                receiveMany,
	"receive_and_delete":          receiveAndDelete,
	"receive_nothing":             receiveNothing,
	"peek":                        peek,
	"complete":                    complete,
	"abandon":                     abandon,
	"abandon_often":               abandonOften,
	"dead_letter":                 deadLetter,
	"defer":                       deferring,
	"renew":                       renew,
	"complete_late":               completeLate,
	"session":                     session,
	"next_session":                nextSession,
	"held_session":                heldSession,
	"session_state":               sessionState,
	"renew_session":               renewSession,
	"lost_session":                lostSession,
	"settle_in_session":           settleInSession,
	"publish":                     publish,
	"dead_letter_of_subscription": deadLetterOfSubscription,
	"defer_on_subscription":       deferOnSubscription,
	"schedule_on_topic":           scheduleOnTopic,
	"sessions_of_subscription":    sessionsOfSubscription,
	"all_fields":                  allFields,
	"bodies":                      bodiesOfKinds,
	"annotated":                   annotated,
	"administer_queue":            administerQueue,
	"administer_topic":            administerTopic,
	"administer_rules":            administerRules,
	"list_queues":                 listQueues,
	"show_namespace":              showNamespace,
	"administer_without_right":    administerWithoutRight,
}

// Operations end with a panic at what is not as it should be.
func perform(asked job) (result answer) {
	result.ID = asked.ID
	ctx, stop := context.WithTimeout(context.Background(), most)
	defer stop()
	used := &entity{job: asked, ctx: ctx}
	defer used.close()
	defer func() {
		if found := recover(); found != nil {
			text := fmt.Sprintf("%v\n%s", found, debug.Stack())
			result.Error = &text
		}
	}()
	if strings.HasPrefix(asked.Operation, "error:") {
		result.Found = fail(used, asked.Operation)
	} else if asked.Operation == "value" {
		result.Found = valueOf(used)
	} else {
		operations[asked.Operation](used)
	}
	return result
}

func list() {
	names := []string{}
	for name := range operations {
		names = append(names, name)
	}
	write(names)
}

var output sync.Mutex

func write(value any) {
	output.Lock()
	defer output.Unlock()
	check(json.NewEncoder(os.Stdout).Encode(value))
}

func main() {
	if slices.Contains(os.Args, "--list") {
		list()
		return
	}
	if slices.Contains(os.Args, "--tokens") {
		tokens()
		return
	}
	if slices.Contains(os.Args, "--handover") {
		handover()
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "--time" {
		timing(os.Args[2:])
		return
	}
	var asked []job
	check(json.NewDecoder(os.Stdin).Decode(&asked))
	waiting := make(chan job)
	var workers sync.WaitGroup
	for range atOnce {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for each := range waiting {
				write(perform(each))
			}
		}()
	}
	for _, each := range asked {
		waiting <- each
	}
	close(waiting)
	workers.Wait()
}
