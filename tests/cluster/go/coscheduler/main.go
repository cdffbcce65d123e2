// The test cluster's scheduler for pods that are placed together: Kubernetes' own with one more plugin, and beside it the
// controller whose changes to PodGroups let the plugin look again at those that wait.
package main

import (
	"context"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-base/cli"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	ctrl "sigs.k8s.io/controller-runtime"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	"sigs.k8s.io/scheduler-plugins/pkg/controllers"
	"sigs.k8s.io/scheduler-plugins/pkg/coscheduling"
)

func main() {
	go func() {
		// By the kubeconfig that KUBECONFIG names.
		if err := control(); err != nil {
			klog.ErrorS(err, "the controller of PodGroups has ended")
			os.Exit(1)
		}
	}()
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(coscheduling.Name, coscheduling.New))))
}

func control() error {
	ctrl.SetLogger(klog.Background())
	scheme := runtime.NewScheme()
	utilruntime.Must(clientscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: metrics.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	groups := &controllers.PodGroupReconciler{Client: manager.GetClient(), Scheme: scheme, Workers: 1}
	if err := groups.SetupWithManager(manager); err != nil {
		return err
	}
	return manager.Start(context.Background())
}
