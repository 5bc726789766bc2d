/** The totals that `reconcile` prints. */
import { summaryText } from '../../../../src/commands/operators/reconcile-report';
import { Totals } from '../../../../src/reconciliation/totals';

test('the totals have the reasons, the most frequent first, and no table where there are none', () => {
  const report = new Totals().report();
  expect(summaryText(report)).not.toContain('reason');
  const reasons = { bad_amount: 7, below_min_bet: 1_200, malformed: 7 };
  expect(summaryText({ ...report, reasons })).toContain(
    [
      'reason         events',
      'below_min_bet   1,200',
      'bad_amount          7',
      'malformed           7',
      '',
    ].join('\n'),
  );
});
