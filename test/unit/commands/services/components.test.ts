/** The components that several services have. */
import { loopComponent } from '../../../../src/commands/services/components';
import { BY_SIGNAL } from '../../../../src/commands/services/lifecycle';

const never = new AbortController().signal;

describe('the component of a loop', () => {
  test('ends the loop, and releases what it holds afterwards', async () => {
    const events: string[] = [];
    const component = loopComponent({
      name: 'loop',
      run: (stop) =>
        new Promise<void>((resolve) =>
          stop.addEventListener('abort', () => {
            events.push('ended');
            resolve();
          }),
        ),
      release: async () => events.push('released'),
    });
    const running = await component.start();
    await component.stop?.(running, 1_000);
    expect(events).toEqual(['ended', 'released']);
    await expect(component.ended?.(running, never)).resolves.toBe(BY_SIGNAL);
  });

  test('ends its service where the loop fails', async () => {
    const component = loopComponent({ name: 'loop', run: () => Promise.reject(new Error('a defect')) });
    const running = await component.start();
    await expect(component.ended?.(running, never)).rejects.toThrow('a defect');
  });
});
