// Nothing is built of these: their definitions of objects are what the chart is checked against.
module promo-intake/dev/chart/crds

go 1.24.0

require (
	github.com/kedacore/keda/v2 v2.21.0
	github.com/prometheus-operator/prometheus-operator v0.85.0
)
