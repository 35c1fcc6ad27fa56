package main

import (
	"strings"
	"testing"
)

func TestUnknownFieldsAndKindsAreErrors(t *testing.T) {
	for _, text := range []string{
		"apiVersion: v1\nkind: Service\nspec: {prots: []}\n",
		"apiVersion: monitoring.coreos.com/v1\nkind: PodMonitor\nspec: {podMetricsEndpoint: []}\n",
		"apiVersion: apps/v1\nkind: StatefulSet\nspec: {replicas: three}\n",
		"apiVersion: v2\nkind: Thing\n",
	} {
		if _, err := decode(strings.NewReader(text)); err == nil {
			t.Errorf("no error for %q", text)
		}
	}
	counts, err := decode(strings.NewReader("apiVersion: v1\nkind: Service\n---\n# nothing\n---\napiVersion: v1\nkind: Service\n"))
	if err != nil || counts["v1 Service"] != 2 {
		t.Errorf("%v, %v", counts, err)
	}
}
