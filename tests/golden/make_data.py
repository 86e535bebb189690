#!/usr/bin/env python3
"""Writes small data sets of random numbers for the goldens into a folder: make_data.py FOLDER.

Every run writes the same bytes. Only Python's standard library is needed.
"""
import os
import struct
import sys
import zlib

state = 1


def draw(n):
    """Returns the next pseudo-random integer in [0, n), from the constants of Numerical Recipes."""
    global state
    state = (state * 1664525 + 1013904223) % 2**32
    return (state >> 8) % n


def write(path, data):
    os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
    with open(path, 'wb') as file:
        file.write(data)


def idx(values, *shape):
    return struct.pack('>HBB', 0, 8, len(shape)) + struct.pack('>%dI' % len(shape), *shape) + bytes(values)


def pixels(count, label):
    """Returns pixels whose brightness depends on the label."""
    return [min(255, 20 * label + draw(60)) for _ in range(count)]


def mnist():
    for name, count in (('train', 128), ('t10k', 32)):
        labels = [i % 10 for i in range(count)]
        images = [p for label in labels for p in pixels(28 * 28, label)]
        write('mnist/%s-images-idx3-ubyte' % name, idx(images, count, 28, 28))
        write('mnist/%s-labels-idx1-ubyte' % name, idx(labels, count))


def cifar():
    for name in ['data_batch_%d' % i for i in range(1, 6)] + ['test_batch']:
        rows = [bytes([i % 10] + pixels(3 * 32 * 32, i % 10)) for i in range(20)]
        write('cifar/%s.bin' % name, b''.join(rows))


def png(width, height, rows):
    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    head = struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', head) +
            chunk(b'IDAT', zlib.compress(b''.join(b'\0' + bytes(r) for r in rows), 9)) + chunk(b'IEND', b''))


def images():
    for label, name in enumerate(('dark', 'bright')):
        for i in range(24):
            rows = [pixels(3 * 8, 8 * label) for _ in range(8)]
            write('images/%s/%02d.png' % (name, i), png(8, 8, rows))


def tables():
    points, flags, inputs, targets = ['a,b,y'], ['a,b,flag'], [], []
    for _ in range(80):
        a, b = draw(1000) / 100, draw(1000) / 100
        points.append('%.2f,%.2f,%.3f' % (a, b, 2 * a - b + draw(100) / 100))
        flags.append('%.2f,%.2f,%d' % (a, b, a > b))
        inputs += [a, b]
        targets.append(int(a > b))
    write('points.csv', ('\n'.join(points) + '\n').encode())
    write('flags.csv', ('\n'.join(flags) + '\n').encode())
    write('x.npy', npy("'<f4'", '(80, 2)', struct.pack('<160f', *inputs)))
    write('y.npy', npy("'<i8'", '(80,)', struct.pack('<80q', *targets)))


def npy(kind, shape, data):
    head = "{'descr': %s, 'fortran_order': False, 'shape': %s, }" % (kind, shape)
    head += ' ' * (63 - (10 + len(head)) % 64) + '\n'
    return b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) + head.encode() + data


def words():
    letters = 'abcdefghijklmnopqrstuvwxyz '
    # Each letter is mostly followed by the next one, so that there is something to learn.
    text, at = [], 0
    for _ in range(4000):
        at = (at + 1) % 27 if draw(4) else draw(27)
        text.append(letters[at])
    write('words.txt', ''.join(text).encode())


os.makedirs(sys.argv[1], exist_ok=True)
os.chdir(sys.argv[1])
for part in (mnist, cifar, images, tables, words):
    part()
