// Reads YAML documents from standard input and decodes each strictly into its Go type: a field that the type does not have, or a value
// of another type, is an error. Prints how many documents of which kind were good; a kind without a type here is an error too.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	strict "sigs.k8s.io/yaml"
)

var types = map[string]func() any{
	"apps/v1 StatefulSet":                     func() any { return &apps.StatefulSet{} },
	"apps/v1 Deployment":                      func() any { return &apps.Deployment{} },
	"autoscaling/v2 HorizontalPodAutoscaler":  func() any { return &autoscaling.HorizontalPodAutoscaler{} },
	"cert-manager.io/v1 Certificate":          func() any { return &certmanager.Certificate{} },
	"monitoring.coreos.com/v1 PodMonitor":     func() any { return &monitoring.PodMonitor{} },
	"monitoring.coreos.com/v1 PrometheusRule": func() any { return &monitoring.PrometheusRule{} },
	"networking.k8s.io/v1 NetworkPolicy":      func() any { return &networking.NetworkPolicy{} },
	"policy/v1 PodDisruptionBudget":           func() any { return &policy.PodDisruptionBudget{} },
	"v1 ConfigMap":                            func() any { return &core.ConfigMap{} },
	"v1 Pod":                                  func() any { return &core.Pod{} },
	"v1 Service":                              func() any { return &core.Service{} },
	"v1 ServiceAccount":                       func() any { return &core.ServiceAccount{} },
}

// KEDA's types are in a module that needs most of the clouds' clients.
var untyped = map[string]bool{"keda.sh/v1alpha1 ScaledObject": true}

func main() {
	counts, err := decode(os.Stdin)
	names := make([]string, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Printf("%d %s\n", counts[name], name)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func decode(input io.Reader) (map[string]int, error) {
	counts := map[string]int{}
	documents := yaml.NewDocumentDecoder(io.NopCloser(input))
	defer documents.Close()
	buffer := make([]byte, 16<<20)
	for {
		length, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return counts, nil
		}
		if err != nil {
			return counts, err
		}
		document := bytes.TrimSpace(buffer[:length])
		var head struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
		}
		if err := strict.Unmarshal(document, &head); err != nil {
			return counts, err
		}
		if head.Kind == "" {
			continue
		}
		name := head.APIVersion + " " + head.Kind
		if untyped[name] {
			continue
		}
		make, known := types[name]
		if !known {
			return counts, fmt.Errorf("%s: there is no type for it here", name)
		}
		if err := strict.UnmarshalStrict(document, make()); err != nil {
			return counts, fmt.Errorf("%s: %w", name, err)
		}
		counts[name]++
	}
}
