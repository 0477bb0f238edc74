package main

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

const (
	many  = 110
	tries = 100
)

func (e *entity) administration(connectionString string) *admin.Client {
	return must(admin.NewClientFromConnectionString(connectionString, nil))
}

// What an operation answers: the status of its error.
func refusedWith(status int, err error) {
	var found *azcore.ResponseError
	truth(errors.As(err, &found) && found.StatusCode == status, fmt.Sprint(err))
}

func all[Page any, Item any](e *entity, pages *runtime.Pager[Page], items func(Page) []Item) []Item {
	found := []Item{}
	for pages.More() {
		found = append(found, items(must(pages.NextPage(e.ctx)))...)
	}
	return found
}

func administerQueue(e *entity) {
	client, name, other := e.administration(e.Manage), e.Entity, e.Entity+"-2"
	queue := must(client.GetQueue(e.ctx, name, nil))
	truth(*queue.LockDuration == "PT1M" && *queue.MaxDeliveryCount == 10, fmt.Sprint(queue))
	queue.LockDuration, queue.MaxDeliveryCount = to.Ptr("PT30S"), to.Ptr(int32(7))
	must(client.UpdateQueue(e.ctx, name, queue.QueueProperties, nil))
	found := must(client.GetQueue(e.ctx, name, nil))
	truth(*found.LockDuration == "PT30S" && *found.MaxDeliveryCount == 7, fmt.Sprint(found))
	e.sendAll(several(3))
	counts := must(client.GetQueueRuntimeProperties(e.ctx, name, nil))
	truth(counts.ActiveMessageCount == 3, fmt.Sprint(counts))
	options := &admin.CreateQueueOptions{
		Properties: &admin.QueueProperties{RequiresSession: to.Ptr(true)},
	}
	made := must(client.CreateQueue(e.ctx, other, options))
	truth(*made.RequiresSession, fmt.Sprint(made))
	_, err := client.CreateQueue(e.ctx, other, nil)
	refusedWith(http.StatusConflict, err)
	must(client.DeleteQueue(e.ctx, other, nil))
	missing, err := client.GetQueue(e.ctx, other, nil)
	truth(missing == nil && err == nil, fmt.Sprint(err))
	_, err = client.DeleteQueue(e.ctx, other, nil)
	refusedWith(http.StatusNotFound, err)
}

func administerTopic(e *entity) {
	client, name := e.administration(e.Manage), e.Entity
	options := &admin.CreateSubscriptionOptions{
		Properties: &admin.SubscriptionProperties{RequiresSession: to.Ptr(true)},
	}
	must(client.CreateSubscription(e.ctx, name, "more", options))
	found := must(client.GetSubscription(e.ctx, name, "more", nil))
	truth(*found.RequiresSession, fmt.Sprint(found))
	found.MaxDeliveryCount = to.Ptr(int32(3))
	must(client.UpdateSubscription(e.ctx, name, "more", found.SubscriptionProperties, nil))
	found = must(client.GetSubscription(e.ctx, name, "more", nil))
	truth(*found.MaxDeliveryCount == 3, fmt.Sprint(found))
	listed := all(e, client.NewListSubscriptionsPager(name, nil),
		func(page admin.ListSubscriptionsResponse) []admin.SubscriptionPropertiesItem {
			return page.Subscriptions
		})
	truth(len(listed) == 2 && listed[0].SubscriptionName == subscription, fmt.Sprint(listed))
	counts := must(client.GetTopicRuntimeProperties(e.ctx, name, nil))
	truth(counts.SubscriptionCount == 2, fmt.Sprint(counts))
	must(client.DeleteSubscription(e.ctx, name, "more", nil))
	missing := must(client.GetSubscription(e.ctx, name, "more", nil))
	truth(missing == nil, fmt.Sprint(missing))
}

func administerRules(e *entity) {
	client, name := e.administration(e.Manage), e.Entity
	sql := &admin.SQLFilter{
		Expression: "colour = @colour AND size > @size",
		Parameters: map[string]any{"@colour": "red", "@size": int64(3)},
	}
	must(client.CreateRule(e.ctx, name, subscription, &admin.CreateRuleOptions{
		Name: to.Ptr("sql"), Filter: sql, Action: &admin.SQLAction{Expression: "SET seen = 'yes'"},
	}))
	correlation := &admin.CorrelationFilter{
		Subject:               to.Ptr("news"),
		ApplicationProperties: map[string]any{"number": int64(7), "text": "x"},
	}
	must(client.CreateRule(e.ctx, name, subscription, &admin.CreateRuleOptions{
		Name: to.Ptr("correlation"), Filter: correlation,
	}))
	must(client.DeleteRule(e.ctx, name, subscription, "$Default", nil))
	listed := all(e, client.NewListRulesPager(name, subscription, nil),
		func(page admin.ListRulesResponse) []admin.RuleProperties { return page.Rules })
	truth(len(listed) == 2 && listed[0].Name == "correlation", fmt.Sprint(listed))
	found := must(client.GetRule(e.ctx, name, subscription, "sql", nil))
	filter := found.Filter.(*admin.SQLFilter)
	truth(filter.Expression == sql.Expression && len(filter.Parameters) == 2, fmt.Sprint(filter))
	truth(filter.Parameters["@colour"] == "red", fmt.Sprint(filter))
	truth(found.Action.(*admin.SQLAction).Expression == "SET seen = 'yes'", fmt.Sprint(found))
	found = must(client.GetRule(e.ctx, name, subscription, "correlation", nil))
	same := found.Filter.(*admin.CorrelationFilter)
	truth(*same.Subject == "news", fmt.Sprint(same))
	truth(same.ApplicationProperties["text"] == "x", fmt.Sprint(same))
	truth(reflect.ValueOf(same.ApplicationProperties["number"]).Int() == 7, fmt.Sprint(same))
}

func listQueues(e *entity) {
	client, names := e.administration(e.Manage), []string{}
	for n := range many {
		name := fmt.Sprintf("%s-%03d", e.Entity, n)
		names = append(names, name)
		must(client.CreateQueue(e.ctx, name, nil))
	}
	listed := []string{}
	// While others create and delete queues, what is on which page changes.
	for n := 0; n < tries && !slices.Equal(listed, names); n++ {
		listed = []string{}
		for _, each := range all(e, client.NewListQueuesPager(nil),
			func(page admin.ListQueuesResponse) []admin.QueueItem { return page.Queues }) {
			if slices.Contains(names, each.QueueName) {
				listed = append(listed, each.QueueName)
			}
		}
	}
	equal(listed, names)
	for _, name := range names {
		must(client.DeleteQueue(e.ctx, name, nil))
	}
}

func showNamespace(e *entity) {
	found := must(e.administration(e.Manage).GetNamespaceProperties(e.ctx, nil))
	truth(found.SKU == "Standard", fmt.Sprint(found))
}

func administerWithoutRight(e *entity) {
	client := e.administration(e.Listen)
	_, err := client.GetQueue(e.ctx, e.Entity, nil)
	refusedWith(http.StatusUnauthorized, err)
	_, err = client.CreateQueue(e.ctx, e.Entity+"-2", nil)
	refusedWith(http.StatusUnauthorized, err)
}
